"""A machine whose nodes sleep, in plain Python, to compare the powered engine with.

Every second is gone through, and within it everything is asked anew until nothing happens any more: a wake or a sleep
that the engine has no event for shows as a difference. Scheduling passes alone come only when something has changed.
"""

from collections.abc import Callable

from plain_need import PlainNeed
from plain_nodes import PlainNode, due_depth
from plain_scheduler import NEVER_STARTED, PlainJob, PlainScheduler

from offpeak.model.node_states import ACTIVE, FAILED, POWERSAVE
from offpeak.plugin.capacity.port import CapacityTargets
from offpeak.plugin.capacity.rules import NEVER, CapacityRules, CapacitySchedule, DepthTable
from offpeak.plugin.capacity.sleepers import WAKE_AHEAD_AT
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.prices.peak import Peak
from offpeak.sim_backend.engine.rules import BEST_FIT, EASY, FCFS, SchedulingRules

MOST_SECONDS = 50_000
MOST_ROUNDS = 500


class PlainPower(PlainScheduler):
    """`node`, `units`, `wanted_s`: what each job was given and since when only sleeping nodes keep it back."""

    def __init__(
        self,
        jobs: list[PlainJob],
        nodes: tuple[int, int],
        rules: SchedulingRules,
        peaks: list[tuple[int, Peak]],
        capacity: tuple[CapacityRules, CapacitySchedule, DepthTable],
        decide: Callable[[int, int], CapacityTargets],
    ) -> None:
        count, self.k = nodes
        super().__init__(jobs, count * self.k, rules, peaks)
        self.capacity, self.schedule, depths = capacity
        self.decide = decide
        self.repairs = depths.repair_s != NEVER
        self.nodes = [PlainNode(number, self.k, depths, self.now_s) for number in range(count)]
        self.begin_s = self.now_s
        self.row = -1
        self.target, self.reserve, self.keep = count, 0, 0
        self.kept, self.planned_wakes = 0, 0
        self.needs = PlainNeed(count)
        self.known_free, self.known_returning = self.machine_size, 0
        self.units: dict[int, list[int]] = {}
        self.fails_s: dict[int, int] = {}
        self.wanted_s: dict[int, int] = {}
        self.planned_start: tuple[int, int] | None = None  # of the first waiting job: (second, units left over)
        self.slept_in: dict[int, int] = {}
        self.next_wake_ms = -(10**15)

    def run(self) -> list[int]:
        """Return the start of each job, NEVER_STARTED for those that the nodes that are left cannot run."""
        while not self.is_over():
            assert self.now_s < self.begin_s + MOST_SECONDS, "hangs"
            self.take_second()
            self.now_s += 1
        return self.start_s

    def is_over(self) -> bool:
        return not self.running and not self.queue and self.submitted == len(self.jobs)

    def take_second(self) -> None:
        for first in [True] + [False] * MOST_ROUNDS:
            before = self.seen_from_outside()
            if not self.is_over():
                self.take_round(first)
            if self.seen_from_outside() == before and not self.is_wanted():
                return
        raise AssertionError("a second without end")

    def seen_from_outside(self) -> tuple[object, ...]:
        nodes = [(node.state, len(node.log)) for node in self.nodes]
        return nodes, list(self.start_s), list(self.running), list(self.queue)

    def is_wanted(self) -> bool:
        return self.wanted_pass_s == self.now_s and bool(self.queue)

    def take_round(self, first: bool) -> None:
        for node in self.nodes:
            node.arrive(self.now_s)
        changed = first and self.now_s in [at_s for at_s, _ in self.peaks]
        changed |= self.take_events()
        changed |= self.follow_schedule()
        changed |= self.drop_too_wide()
        changed |= self.free_has_changed()
        if changed:
            self.want_pass()
        if first and self.capacity.period_s and (self.now_s - self.begin_s) % self.capacity.period_s == 0:
            self.decide_now()
        self.set_target()
        self.shrink_to_target()
        if self.free_has_changed():
            self.want_pass()
        if self.wanted_pass_s is not None and self.wanted_pass_s <= self.now_s:
            self.wanted_pass_s = None
            self.settle()
            if self.queue:
                self.run_pass()
        self.plan()
        self.sleep_due()
        self.wake_needed()
        self.note_wanted()
        free, expected = self.known_free, self.known_free + self.known_returning
        self.free_has_changed()
        if self.known_free > free or self.known_free + self.known_returning > expected:
            self.want_pass()

    def decide_now(self) -> None:
        if not self.capacity.worth_s:
            targets = self.decide(self.now_s, len(self.queue))
            self.target, self.reserve = targets.awake, targets.reserve
            return
        units = sum(len(self.units[number]) for number in self.running)
        self.needs.seen.append((self.now_s, -(-units // self.k)))
        self.keep = self.needs.last_rank(1 / self.capacity.worth_s)
        self.reserve = self.needs.last_rank(WAKE_AHEAD_AT / self.capacity.worth_s)

    def want_pass(self) -> None:
        period_s = self.rules.period_s or 1
        self.wanted_pass_s = -(-self.now_s // period_s) * period_s

    def free_has_changed(self) -> bool:
        before = self.known_free, self.known_returning
        self.known_free, self.known_returning = self.free(), self.returning()
        self.freed |= (self.known_free, self.known_returning) != before
        return self.known_free != before[0]

    # What jobs may be given

    def idle_units(self) -> int:
        return sum(len(node.free) for node in self.nodes if node.state == ACTIVE)

    def spare_units(self) -> int:
        return sum(len(node.free) for node in self.nodes if node.sleeps or node.rises)

    def free(self) -> int:
        return self.idle_units() + (self.spare_units() if self.jobs_wake() else 0)

    def jobs_wake(self) -> bool:
        return self.capacity.on_demand and not self.capacity.plan_s

    def returning(self) -> int:
        if self.jobs_wake():
            return sum(node.units for node in self.nodes if node.falls)
        return sum(node.units for node in self.nodes if node.rises and node.deeper is None)

    def usable(self) -> int:
        return sum(node.state != FAILED for node in self.nodes)

    def nodes_for(self, job: int) -> int:
        return -(-self.jobs[job].size // self.k)

    # Jobs

    def end_s(self, number: int) -> int:
        return self.fails_s.get(number, super().end_s(number))

    def start(self, number: int) -> None:
        """Give the job idle units, then those of rising nodes, then of sleeping ones, the lightest sleepers first."""
        self.wanted_s.setdefault(number, self.now_s)
        self.queue.remove(number)
        self.running.append(number)
        self.units[number] = []
        begin_s = self.now_s
        for node in self.nodes:
            if node.state == ACTIVE:
                self.take_units(number, node)
        rising = [node for node in self.nodes if node.rises]
        sleeping = sorted((node for node in self.nodes if node.sleeps), key=lambda node: node.depth)
        for node in rising + sleeping:
            if not self.take_units(number, node):
                continue
            node.deeper = None
            if node.sleeps:
                self.wake(node)
            if node.state == FAILED:
                self.fails_s[number] = self.now_s
            elif node.ready_s is not None:
                begin_s = max(begin_s, node.ready_s)
                if node.fails:
                    self.fails_s[number] = min(node.ready_s, self.fails_s.get(number, node.ready_s))
        assert len(self.units[number]) == self.jobs[number].size
        self.start_s[number] = begin_s
        self.known_free = self.free()

    def take_units(self, number: int, node: PlainNode) -> bool:
        missing = self.jobs[number].size - len(self.units[number])
        taken = sorted(node.free)[:missing]
        node.free -= set(taken)
        self.units[number] += taken
        return bool(taken)

    def give_back(self, number: int) -> None:
        for unit in self.units.pop(number):
            node = self.nodes[unit // self.k]
            node.free.add(unit)
            if node.idle:
                node.idle_since_s = self.now_s
        self.freed = True

    def end(self, number: int) -> None:
        self.give_back(number)
        if self.fails_s.pop(number, None) is None:
            super().end(number)
            return
        self.running.remove(number)
        self.start_s[number] = NEVER_STARTED
        self.queue = sorted([*self.queue, number])
        self.passed_over_s.pop(number, None)
        if any(later > number for later in self.queue if later in self.passed_over_s):
            self.passed_over_s[number] = self.now_s

    def drop_too_wide(self) -> bool:
        before = len(self.queue)
        if self.nodes[0].depths.repair_s == NEVER:
            self.queue = [job for job in self.queue if self.nodes_for(job) <= self.usable()]
        self.freed |= len(self.queue) < before
        return len(self.queue) < before

    def run_pass(self) -> None:
        """Start jobs; where no unit is free, an earlier reservation stands if nothing came back since it was made."""
        if self.freed or self.rules.policy != ARRIVAL or (self.planned_start or (self.now_s, 0))[0] < self.now_s:
            self.planned_start = None
        before = len(self.running)
        super().run_pass()
        self.freed = any(self.start_s[job] > self.now_s for job in self.running[before:])

    def start_jobs(self, order: list[int]) -> None:
        while order and self.fits(order[0]):
            self.start(order.pop(0))
        if not order or self.rules.discipline == FCFS or not self.free():
            return
        shadow_s, extra = self.reservation(self.jobs[order[0]].size)
        if self.rules.discipline == BEST_FIT:
            order.sort(key=lambda job: -self.jobs[job].size)
        for job in order:
            in_time = self.now_s + self.planned_s[job] <= shadow_s
            beside = self.rules.discipline == EASY and self.jobs[job].size <= extra
            if not self.fits(job) or not (in_time or beside):
                continue
            self.start(job)
            # The boot counts for what the reservation leaves over, though not for whether the job may start.
            if not in_time or self.expected_end_s(job) > shadow_s:
                extra -= self.jobs[job].size
        self.planned_start = (shadow_s, extra)

    def reservation(self, size: int) -> tuple[int, int]:
        """As on a machine without sleep; where nodes are missing, the last expected end and fewer than none left."""
        ends = [(self.expected_end_s(job), self.jobs[job].size) for job in self.holders()]
        if self.capacity.plan_s:
            free, ends = self.free(), ends + self.coming() + [(self.now_s + self.wake_s(), self.asleep() * self.k)]
        else:
            free = self.free() + self.returning()
        shadow_s = self.now_s
        for at_s, units in sorted(end for end in ends if end[1]):
            if free >= size and at_s > shadow_s:
                break
            free += units
            shadow_s = max(shadow_s, at_s)
        return shadow_s, free - size

    # The plan of the queue

    def asleep(self) -> int:
        return sum(node.sleeps for node in self.nodes)

    def wake_s(self) -> int:
        return max((node.depths.leave_s[node.depth] for node in self.nodes if node.sleeps), default=0)

    def coming(self) -> list[tuple[int, int]]:
        """Return when each rising node is up, and each falling one if it is woken then, and its units."""
        rising = [(node.ready_s, self.k) for node in self.nodes if node.rises and node.deeper is None]
        falling = [node for node in self.nodes if node.falls]
        return rising + [(node.ready_s + node.depths.leave_s[node.depth], self.k) for node in falling]

    def plan(self) -> None:
        """Plan the queue as EASY does: what can start by the end of a boot, the first job that cannot, and the rest."""
        self.planned_wakes, kept, ready, idle, asleep = 0, 0, 0, self.idle_units(), self.asleep()
        up_s = self.now_s + self.wake_s()
        last_s = max((node.ready_s for node in self.nodes if node.rises and node.deeper is None), default=0)
        keep_until_s = max(self.now_s + self.capacity.plan_s, last_s)
        ends = [(self.expected_end_s(job), self.jobs[job].size) for job in self.holders()]
        coming = self.coming() + [end for end in ends if end[0] > self.now_s]
        shadow_s, extra = None, 0
        for job in self.queue if self.capacity.plan_s and (idle or asleep) else []:
            if not idle and not asleep:
                break
            size, own = self.jobs[job].size, min(self.jobs[job].size, idle)
            taken, found, start_s = [], own, self.now_s
            for at_s, units in sorted(coming):
                if found < size and at_s <= up_s:
                    taken.append((at_s, units))
                    found, start_s = found + units, at_s
            nodes = -(-max(0, size - found) // self.k)
            end_s = (up_s if nodes else start_s) + max(1, self.planned_s[job])
            if shadow_s is not None and (nodes > asleep or (end_s > shadow_s and size > extra)):
                continue
            if own == size:
                ready = max(ready, size)
                continue
            if nodes > asleep:
                total = idle + asleep * self.k
                enough = [s for s, _ in sorted(coming) if total + sum(u for at_s, u in coming if at_s <= s) >= size]
                shadow_s = max(up_s, min(enough, default=max((at_s for at_s, _ in coming), default=up_s)))
                extra = total + sum(u for at_s, u in coming if at_s <= shadow_s) - size
                kept += own if shadow_s <= keep_until_s else 0
                if self.rules.discipline == FCFS:
                    break
                continue
            extra -= size if shadow_s is not None and end_s > shadow_s else 0
            idle, kept, asleep = idle - own, kept + own, asleep - nodes
            self.planned_wakes += nodes
            for end in taken:
                coming.remove(end)
            over = found + nodes * self.k - size
            coming += [(up_s if nodes else start_s, over)] if over else []
            coming.append((end_s, size))
        self.kept = -(-max(kept, ready) // self.k)

    def note_wanted(self) -> None:
        if not self.queue or self.wanted_pass_s is not None:
            return
        if self.capacity.plan_s:
            left = self.units_without_job()
            for job in self.queue:
                left -= self.jobs[job].size
                if left < 0:
                    return
                self.wanted_s.setdefault(job, self.now_s)
            return
        if self.free() < self.jobs[self.queue[0]].size <= self.units_without_job():
            self.wanted_s.setdefault(self.queue[0], self.now_s)

    def units_without_job(self) -> int:
        return self.idle_units() + self.spare_units() + sum(node.units for node in self.nodes if node.falls)

    def waits_for_repair(self) -> bool:
        """Say whether the first waiting job lacks nothing but failed nodes."""
        if not self.queue or not self.repairs:
            return False
        there, failed = self.units_without_job(), (len(self.nodes) - self.usable()) * self.k
        return there < self.jobs[self.queue[0]].size <= there + failed

    # Nodes

    def wake(self, node: PlainNode) -> None:
        called_s = self.now_s
        if self.capacity.wakes_per_min:
            called_ms = max(self.now_s * 1000, self.next_wake_ms)
            self.next_wake_ms = called_ms - (-60_000 // self.capacity.wakes_per_min)
            called_s = -(-called_ms // 1000)
        node.wake(called_s, self.now_s)

    def follow_schedule(self) -> bool:
        row = sum(at_s <= self.now_s for at_s in self.schedule.at_s.tolist()) - 1
        if row == self.row:
            return False
        self.row = row
        self.target, self.reserve = int(self.schedule.target[row]), int(self.schedule.reserve[row])
        return True

    def after_s(self) -> list[int]:
        return self.schedule.after_s[self.row].tolist()

    def widest_waiting(self) -> int:
        """Return the nodes that the widest waiting job needs, of those that working or repaired nodes can run."""
        most = len(self.nodes) if self.repairs else self.usable()
        return max((n for n in map(self.nodes_for, self.queue) if n <= most), default=0)

    def set_target(self) -> None:
        if self.capacity.low:
            in_use = sum(node.state == ACTIVE and not node.idle for node in self.nodes)
            if self.target > self.capacity.low and in_use > self.capacity.low:
                return
            is_enough = self.widest_waiting() <= self.capacity.low
            self.target = self.capacity.low if is_enough else len(self.nodes)
        elif self.capacity.raise_for_wide:
            self.target = max(self.target, self.widest_waiting())

    def awake(self) -> int:
        """Return how many nodes are awake or come up to be."""
        return sum(node.state == ACTIVE or (node.rises and node.deeper is None) for node in self.nodes)

    def idle_awake(self) -> int:
        return sum(node.idle and (node.state == ACTIVE or (node.rises and node.deeper is None)) for node in self.nodes)

    def beyond_need(self) -> int:
        """Return how many nodes that are up need not be."""
        active = [node for node in self.nodes if node.state == ACTIVE]
        stay = max(self.reserve, self.keep, self.kept)
        return min(len(active) - self.floor(), sum(node.idle for node in active) - stay)

    def floor(self) -> int:
        return max(self.capacity.keep_hot, 0 if self.capacity.on_demand else self.target)

    def may_sleep(self, node: PlainNode) -> bool:
        if node.state != ACTIVE or not node.idle or self.now_s - node.woken_s < self.capacity.min_awake_s:
            return False
        return not node.is_spent(self.capacity.most_sleeps_per_day, self.now_s)

    def put_to_sleep(self, nodes: list[PlainNode], most: int, depth: Callable[[PlainNode], int | None]) -> None:
        """Put up to `most` of the nodes to sleep, in their order and within what a minute allows."""
        most = max(0, most)
        minute = self.now_s // 60
        if self.capacity.sleeps_per_min:
            most = min(most, self.capacity.sleeps_per_min - self.slept_in.get(minute, 0))
        for node in sorted(nodes, key=lambda node: node.sleep_key(self.capacity.order, self.now_s))[:most]:
            self.slept_in[minute] = self.slept_in.get(minute, 0) + 1
            node.slept_s = self.now_s
            node.go_down(depth(node), self.now_s)

    def shrink_to_target(self) -> None:
        deepest = due_depth(self.after_s(), 10**15)
        if self.capacity.on_demand or deepest is None:
            return
        most = self.beyond_need()
        self.put_to_sleep([node for node in self.nodes if self.may_sleep(node)], most, lambda _: deepest)

    def sleep_due(self) -> None:
        if not self.capacity.on_demand:
            return
        due = [node for node in self.nodes if self.may_sleep(node) and self.due(node) is not None]
        most = 0 if self.is_awaited() or self.waits_for_repair() else self.beyond_need()
        self.put_to_sleep(due, most, self.due)
        for node in self.nodes:
            depth = self.due(node)
            if not node.sleeps or depth is None or node.depth >= depth:
                continue
            if node.is_spent(self.capacity.most_sleeps_per_day, self.now_s):
                continue
            self.go_deeper(node, depth)

    def go_deeper(self, node: PlainNode, depth: int) -> None:
        """Send it deeper: from standby by way of waking, while a slow clock is only switched."""
        if node.depth == POWERSAVE:
            node.go_down(depth, self.now_s)
        else:
            node.deeper = depth
            self.wake(node)

    def due(self, node: PlainNode) -> int | None:
        return due_depth(self.after_s(), self.now_s - node.idle_since_s)

    def is_awaited(self) -> bool:
        if not self.capacity.ahead_s or not self.queue or self.planned_start is None:
            return False
        return self.planned_start[0] - self.now_s <= self.capacity.ahead_s

    def needed_for_reservation(self) -> int:
        if not self.capacity.on_demand or not self.is_awaited():
            return 0
        units = self.spare_units() + self.returning() - self.planned_start[1]
        rising = sum(node.idle and node.rises and node.deeper is None for node in self.nodes)
        return -(-units // self.k) - rising

    def wake_needed(self) -> None:
        planned = max(self.needed_for_reservation(), self.planned_wakes)
        missing = max(self.floor() - self.awake(), self.reserve - self.idle_awake(), planned)
        rested = [
            node for node in self.nodes if node.sleeps and self.now_s - node.slept_s >= self.capacity.min_asleep_s
        ]
        for node in sorted(rested, key=lambda node: node.depth)[: max(0, missing)]:
            self.wake(node)
