"""A scheduler of several pools in plain Python, to compare the engine with: every figure anew at each step.

What is free in a cell at a second is its capacity less all running jobs and reservations that hold it then. As in Slurm
only the ends of jobs on nodes that a job could use count for its start, and a pass over a competition group follows
what happens in it. A job that finds no place may stop others; the pass ends then, and the next one follows at once.
"""

from collections import Counter
from dataclasses import dataclass, field

from offpeak.model.cluster import Cluster, competition_groups
from offpeak.model.limits import PreemptMode
from offpeak.model.request import Chunk, Request

ALL = 10**9
Cell = tuple[int, int]
"""A pool and a node of it; all nodes of a pool that no job shares are its cell 0."""


@dataclass
class PlainMixedJob:
    """One job: seconds, its request, and what puts it before others."""

    submit_s: int
    runtime_s: int
    estimate_s: int
    request: Request
    priority: int = 0
    array: int = -1
    throttle: int = 0
    user: int = -1


@dataclass
class Stay:
    """What a job takes of cells from a second to another."""

    job: int
    start_s: int
    end_s: int
    taken: list[tuple[Cell, Counter]]


@dataclass
class PlainMixed:
    """Jobs are known by their number; all of them fit the empty cluster. With `widths` the widest start first beside
    reservations.
    """

    cluster: Cluster
    jobs: list[PlainMixedJob]
    reservations: int
    completing_s: int = 0
    sched_interval_s: int = 0
    bf_interval_s: int = 0
    bf_resolution_s: int = 0
    end_window_s: int = 0
    end_window_step_s: int = 0
    requeue_s: int = 0
    ends_before: bool = False
    widths: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    running: list[Stay] = field(default_factory=list)

    def run(self) -> list[int]:
        """Return the start of each job."""
        self.requests = {job.request for job in self.jobs}
        self.shared = {
            pool for pool in range(len(self.cluster.pools)) if any(self.shares(pool, each) for each in self.requests)
        }
        groups = competition_groups({request: self.pools_of(request) for request in self.requests})
        self.group = [groups[job.request] for job in self.jobs]
        self.start_s = [-1] * len(self.jobs)
        self.first_reservation_s: dict[int, int] = {}
        self.log: list[Stay] = []
        self.stopped: list[tuple[int, int, int, PreemptMode]] = []
        self.requeues: list[tuple[int, int]] = []
        self.interrupted: list[Stay] = []
        self.next_stoppable_s: int | None = None
        due: set[int] = set()
        full_due: set[int] = set()
        wanted_s = full_s = None
        submitted = 0
        while submitted < len(self.jobs) or self.running or self.waiting or self.requeues:
            times = [stay.end_s for stay in self.running] + [at_s for at_s, _ in self.requeues]
            times += [self.now_s] if self.interrupted else []
            times += [self.next_stoppable_s] if self.next_stoppable_s is not None and self.waiting else []
            times += [job.submit_s for job in self.jobs[submitted : submitted + 1]]
            times += [at_s for at_s in (wanted_s, full_s) if at_s is not None and self.waiting]
            self.now_s = now_s = min(times)
            ended = [stay for stay in self.running if stay.end_s == now_s]
            self.running = [stay for stay in self.running if stay.end_s > now_s]
            new = [number for number, job in enumerate(self.jobs) if job.submit_s == now_s and number >= submitted]
            submitted += len(new)
            again = [number for at_s, number in self.requeues if at_s == now_s]
            self.requeues = [(at_s, number) for at_s, number in self.requeues if at_s > now_s]
            self.waiting += new + again
            ended += self.interrupted
            events = self.groups_of(ended, new + again)
            if any_stoppable := self.next_stoppable_s is not None and self.next_stoppable_s <= now_s:
                self.next_stoppable_s = None
                events = set(self.group)
            self.interrupted = []
            due |= events
            full_due |= set(self.group) if events and self.end_window_s else events
            if ended or new or again or any_stoppable:
                wanted_s = up_to_multiple(now_s, self.sched_interval_s)
                full_s = up_to_multiple(now_s, self.bf_interval_s) if self.bf_interval_s else None
            is_full = full_s == now_s or not self.bf_interval_s
            if now_s in (wanted_s, full_s):
                wanted_s = None if wanted_s == now_s else wanted_s
                full_s = None if full_s == now_s else full_s
                passing = full_due if is_full else due
                for group in sorted(passing):
                    self.run_pass(group, is_full=is_full)
                passing.clear()
                ends = [stay for stay in self.running if stay.end_s == now_s]
                assert all(self.jobs[stay.job].runtime_s + self.completing_s == 0 for stay in ends)
        return self.start_s

    def groups_of(self, ended: list[Stay], new: list[int]) -> set[int]:
        """Return the groups in which something happens; what a job gives back of limits may be for any of them."""
        jobs = [self.jobs[stay.job] for stay in ended]
        if any(self.cluster.limits_of(job.request) or (job.array >= 0 and job.throttle) for job in jobs):
            return set(self.group)
        return {self.group[number] for number in [*new, *(stay.job for stay in ended)]}

    def order(self, group: int) -> list[int]:
        """Return the waiting jobs of a group: by tier, priority and submission."""

        def key(number: int) -> tuple[int, int, int, int]:
            job = self.jobs[number]
            level, tier = self.cluster.precedence(job.request)
            return -level, -tier, -job.priority, number

        return sorted((number for number in self.waiting if self.group[number] == group), key=key)

    def reachable(self, partitions: tuple[str, ...]) -> frozenset[int]:
        """Return the pools of partitions, all of them for none."""
        return frozenset(
            number
            for number, pool in enumerate(self.cluster.pools)
            if not partitions or pool.partitions & frozenset(partitions)
        )

    def run_pass(self, group: int, *, is_full: bool) -> None:
        reserved: list[Stay] = []
        closed: set[tuple[str, ...]] = set()
        blocked = False
        queue = self.order(group)
        while queue:
            if self.widths and is_full and blocked and len(reserved) == self.reservations:
                queue.sort(key=lambda number: -self.widths[number])
            number = queue.pop(0)
            job = self.jobs[number]
            own = self.reachable(job.request.partitions)
            if self.is_throttled(job) or self.is_limited(job) or any(own <= self.reachable(each) for each in closed):
                continue
            is_late = self.ends_before and bool(self.left_at_starts(reserved, self.now_s - 1, self.hold_s(job) + 1))
            taken = None if is_late else self.place(job.request, self.left_now(reserved, self.hold_s(job)))
            if taken is not None:
                self.start(number, taken)
            elif not is_late and self.stop_others(number, reserved):
                return
            elif not is_full:
                closed.add(job.request.partitions)
            elif not blocked and self.reservations == 0:
                return
            elif len(reserved) < self.reservations:
                blocked = True
                reserved.append(self.reservation(number, reserved))
                self.first_reservation_s.setdefault(number, reserved[0].start_s) if len(reserved) == 1 else None

    def stop_others(self, number: int, reserved: list[Stay]) -> bool:
        """Start the job in the place of others, the fewest of the first in order, if that is possible."""
        job = self.jobs[number]
        order = self.candidates(number)
        running = self.running

        def left_without(some: list[Stay]) -> dict[Cell, Counter]:
            self.running = [stay for stay in running if stay not in some]
            found = self.left_now(reserved, self.hold_s(job))
            self.running = running
            return found

        if not order or self.place(job.request, left_without(order)) is None:
            return False
        too_few, enough = 0, len(order)
        while enough - too_few > 1:
            middle = (enough + too_few) // 2
            fits = self.place(job.request, left_without(order[:middle])) is not None
            too_few, enough = (too_few, middle) if fits else (middle, enough)
        free = left_without(order[:enough])
        taken = self.place(job.request, free) or []
        for cell, amount in taken:
            free[cell].subtract(amount)
        for stay in reversed(order[:enough]):
            for cell, amount in stay.taken:
                free[cell].subtract(amount)
            if all(free[cell][name] >= 0 for cell, _ in taken for name in free[cell]):
                continue
            for cell, amount in stay.taken:
                free[cell].update(amount)
            self.stop(number, stay)
        self.start(number, taken)
        return True

    def candidates(self, number: int) -> list[Stay]:
        """Return the running jobs that the job may stop now, in the order in which they are stopped."""
        found = []
        for stay in self.running:
            request = self.jobs[stay.job].request
            mode = self.cluster.preempt_mode(self.jobs[number].request, request)
            if self.group[stay.job] != self.group[number] or mode not in (PreemptMode.REQUEUE, PreemptMode.CANCEL):
                continue
            if stay.end_s - self.completing_s <= self.now_s:
                continue
            from_s = stay.start_s + self.cluster.exempt_s(request)
            if from_s <= self.now_s:
                found.append(stay)
            else:
                from_s = up_to_multiple(from_s, self.bf_interval_s)
                self.next_stoppable_s = min(from_s, self.next_stoppable_s or from_s)
        return sorted(found, key=self.stop_key)

    def stop_key(self, stay: Stay) -> tuple[int, int, int]:
        request = self.jobs[stay.job].request
        if self.cluster.preemption.youngest_first:
            return -stay.start_s, 0, stay.job
        if self.cluster.qos_preempt:
            return self.cluster.qos[request.qos].priority, request.least_nodes, stay.job
        return self.cluster.tier_of(request), request.least_nodes, stay.job

    def stop(self, number: int, stay: Stay) -> None:
        mode = self.cluster.preempt_mode(self.jobs[number].request, self.jobs[stay.job].request)
        self.running.remove(stay)
        self.interrupted.append(stay)
        self.stopped.append((stay.job, stay.start_s, self.now_s, mode))
        if mode is PreemptMode.REQUEUE:
            self.start_s[stay.job] = -1
            self.requeues.append((self.now_s + self.requeue_s, stay.job))

    def is_throttled(self, job: PlainMixedJob) -> bool:
        running = [stay for stay in self.running if self.jobs[stay.job].array == job.array]
        return job.array >= 0 and job.throttle > 0 and len(running) >= job.throttle

    def is_limited(self, job: PlainMixedJob) -> bool:
        used = self.used()
        return any(
            used[limit, job.user if limit.per_user else -1] + amount > limit.most
            for limit, amount in self.cluster.limits_of(job.request)
            if not limit.per_user or job.user >= 0
        )

    def used(self) -> Counter:
        """Return what running jobs take of each limit, by user where it is one of users."""
        found = Counter()
        for job in (self.jobs[stay.job] for stay in self.running):
            for limit, amount in self.cluster.limits_of(job.request):
                found[limit, job.user if limit.per_user else -1] += amount
        return found

    def hold_s(self, job: PlainMixedJob) -> int:
        return job.estimate_s + self.completing_s

    def start(self, number: int, taken: list[tuple[Cell, Counter]]) -> None:
        job = self.jobs[number]
        self.waiting.remove(number)
        self.start_s[number] = self.now_s
        self.running.append(Stay(number, self.now_s, self.now_s + job.runtime_s + self.completing_s, taken))
        self.log.append(self.running[-1])

    def expected(self) -> list[Stay]:
        """Return the running jobs as expected: those that run for longer than expected end now."""
        return [
            Stay(stay.job, stay.start_s, max(self.now_s, stay.start_s + self.hold_s(self.jobs[stay.job])), stay.taken)
            for stay in self.running
        ]

    def left(self, stays: list[Stay]) -> dict[Cell, Counter]:
        free = {cell: Counter(capacity) for cell, capacity in self.capacity().items()}
        for stay in stays:
            for cell, amount in stay.taken:
                free[cell].subtract(amount)
        return free

    def left_now(self, reserved: list[Stay], hold_s: int) -> dict[Cell, Counter]:
        """Return what a job that starts now may take: what is free now and at the start of each reservation."""
        return self.least([self.left(self.running), *self.left_at_starts(reserved, self.now_s - 1, hold_s + 1)])

    def left_at_starts(self, reserved: list[Stay], after_s: int, for_s: int) -> list[dict[Cell, Counter]]:
        until_s, step_s = after_s + for_s, self.bf_resolution_s
        if step_s:
            counts = {stay.start_s: stay.start_s - stay.start_s % step_s <= until_s for stay in reserved}
        else:
            counts = {stay.start_s: stay.start_s < until_s for stay in reserved}
        starts = {start_s for start_s, is_before_end in counts.items() if after_s < start_s and is_before_end}
        return [self.left_at(at_s, reserved) for at_s in starts]

    def left_at(self, at_s: int, reserved: list[Stay]) -> dict[Cell, Counter]:
        stays = [stay for stay in self.expected() if stay.end_s > at_s]
        return self.left(stays + [stay for stay in reserved if stay.start_s <= at_s < stay.end_s])

    @staticmethod
    def least(frees: list[dict[Cell, Counter]]) -> dict[Cell, Counter]:
        return {
            cell: Counter({name: min(free[cell][name] for free in frees) for name in frees[0][cell]})
            for cell in frees[0]
        }

    def reservation(self, number: int, reserved: list[Stay]) -> Stay:
        request, hold_s = self.jobs[number].request, max(1, self.hold_s(self.jobs[number]))
        ends = {stay.end_s for stay in self.expected()}
        group = {stay.end_s for stay in self.expected() if self.group[stay.job] == self.group[number]}
        own = self.ends_on(self.pools_of(request)) if self.end_window_s else group
        changes = own | {stay.end_s for stay in reserved}
        at_s, window_s, barrier_s = self.now_s, self.end_window_s, None
        while True:
            frees = [self.left_at(at_s, reserved), *self.left_at_starts(reserved, at_s, hold_s)]
            taken = self.place(request, self.least(frees))
            if taken is not None:
                return Stay(number, at_s, up_to_multiple(at_s + hold_s, self.bf_resolution_s), self.kept(taken))
            before_s, at_s = at_s, min(change_s for change_s in changes if change_s > at_s)
            if window_s:
                barrier_s = barrier_s or (at_s // window_s + 1) * window_s
                next_s = min(end_s for end_s in {at_s, *ends} if end_s > before_s)
                while barrier_s + window_s < next_s:
                    window_s = window_s + self.end_window_step_s if self.end_window_step_s else 2 * window_s
                at_s = self.last_end_s(own, ends, at_s, barrier_s + window_s)

    def kept(self, taken: list[tuple[Cell, Counter]]) -> list[tuple[Cell, Counter]]:
        """Return what a reservation keeps of the cells: with a resolution whole nodes."""
        if not self.bf_resolution_s:
            return taken
        capacity = self.capacity()
        return [(cell, capacity[cell] if cell[0] in self.shared else amount) for cell, amount in taken]

    def ends_on(self, pools: list[int]) -> set[int]:
        """Return the expected ends of the running jobs that hold nodes of the pools."""
        return {stay.end_s for stay in self.expected() if any(cell[0] in pools for cell, _ in stay.taken)}

    def last_end_s(self, own: set[int], ends: set[int], at_s: int, until_s: int) -> int:
        """Return the last end that the search takes together: `own` are those on nodes that the job can use."""
        if at_s > until_s:
            return at_s
        at_s = max([at_s, *(end_s for end_s in own if end_s <= until_s)])
        if any(at_s < end_s <= until_s for end_s in ends):
            return min((end_s for end_s in own if end_s > at_s), default=at_s)
        return at_s

    def capacity(self) -> dict[Cell, Counter]:
        found = {}
        for number, pool in enumerate(self.cluster.pools):
            kind = pool.node_type
            amount = Counter(jobs=ALL, cores=kind.cores, memory=kind.memory_mib, gpus=kind.gpu_count())
            amount.update({f"gpu {name}": count for name, count in kind.gpus})
            if number in self.shared:
                found |= {(number, node): amount for node in range(pool.nodes)}
            else:
                found[number, 0] = Counter(nodes=pool.nodes)
        return found

    def shares(self, pool: int, request: Request) -> bool:
        return pool in self.pools_of(request) and not self.cluster.takes_whole_nodes(request, self.cluster.pools[pool])

    def pools_of(self, request: Request) -> list[int]:
        return sorted(
            {pool for parts in self.cluster.parts_per_node(request) for pool, room in enumerate(parts) if room}
        )

    def place(self, request: Request, free: dict[Cell, Counter]) -> list[tuple[Cell, Counter]] | None:
        """Return what the job takes of which cells, None if it does not fit; see offpeak.sim_backend.engine.cells."""
        free = {cell: Counter(amount) for cell, amount in free.items()}
        taken: list[tuple[Cell, Counter]] = []
        for chunk, rooms in zip(request.chunks, self.cluster.parts_per_node(request), strict=True):
            missing = chunk.copies
            for pool in sorted(
                (pool for pool, room in enumerate(rooms) if room), key=lambda pool: self.surplus(pool, chunk)
            ):
                room = 1 if request.apart else rooms[pool]
                while missing > 0:
                    need = self.need(request, chunk, pool)
                    whole = "cores" not in need or need["jobs"] == ALL
                    cells = [
                        cell
                        for cell in free
                        if cell[0] == pool
                        and all(free[cell][name] >= amount for name, amount in need.items())
                        and not (request.apart and pool in self.shared and cell in [used for used, _ in taken])
                    ]
                    if not cells:
                        break
                    cell = min(cells, key=lambda cell: (0 if whole else free[cell]["cores"], cell))
                    taken.append((cell, need))
                    free[cell].subtract(need)
                    missing -= room if whole else 1
                    # Parts that may share a node fill the one that was chosen.
                    while missing > 0 and not whole and not request.apart:
                        if not all(free[cell][name] >= amount for name, amount in need.items()):
                            break
                        taken.append((cell, need))
                        free[cell].subtract(need)
                        missing -= 1
            if missing > 0:
                return None
        return taken

    def surplus(self, pool: int, chunk: Chunk) -> tuple[int, int, int, int]:
        kind = self.cluster.pools[pool].node_type
        memory, cores = kind.memory_mib - chunk.memory_mib, kind.cores - chunk.cores
        return kind.gpu_count() - chunk.gpus, max(0, memory), max(0, cores), pool

    def need(self, request: Request, chunk: Chunk, pool: int) -> Counter:
        kind = self.cluster.pools[pool].node_type
        if pool not in self.shared:
            return Counter(nodes=1)
        if self.cluster.takes_whole_nodes(request, self.cluster.pools[pool]):
            return self.capacity()[pool, 0]
        amount = Counter(jobs=1, gpus=chunk.gpus)
        amount["cores"] = chunk.cores if kind.cores else 0
        amount["memory"] = chunk.memory_mib if kind.memory_mib else 0
        if chunk.gpu_type:
            amount[f"gpu {chunk.gpu_type}"] = chunk.gpus
        return amount


def up_to_multiple(at_s: int, interval_s: int) -> int:
    """Return the first multiple of the interval from then on."""
    return at_s + -at_s % interval_s if interval_s else at_s
