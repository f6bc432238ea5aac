"""A scheduler in plain Python, to compare the engine with: lists, sorting and sums anew at each pass, no shortcuts."""

from dataclasses import dataclass
from itertools import takewhile

from plain_window import knapsack, sorted_by_power

from offpeak.plugin.window_policy import ARRIVAL, GREEDY, GREEDY_SLIDE, KNAPSACK_SLIDE
from offpeak.prices.peak import Peak
from offpeak.sim_backend.engine.rules import BEST_FIT, EASY, EXACT_RUNTIME, FCFS, PREDICTED_RUNTIME, SchedulingRules

NEVER_STARTED = -1


@dataclass(frozen=True)
class PlainJob:
    """One job: s, allocation units, W per unit."""

    submit_s: int
    runtime_s: int
    estimate_s: int
    size: int
    power_w: float
    user: int


class PlainScheduler:
    """Jobs are known by their number. `peaks` are pairs (from second, Peak); before the first the price is unknown."""

    def __init__(
        self, jobs: list[PlainJob], machine_size: int, rules: SchedulingRules, peaks: list[tuple[int, Peak]]
    ) -> None:
        self.jobs, self.machine_size, self.rules, self.peaks = jobs, machine_size, rules, peaks
        self.now_s = jobs[0].submit_s
        self.wanted_pass_s: int | None = None
        self.submitted = 0
        self.queue: list[int] = []
        self.running: list[int] = []  # in the order of their starts
        self.released: set[int] = set()  # running, but past their expected end and without nodes
        self.planned_s: dict[int, int] = {}
        self.start_s = [NEVER_STARTED] * len(jobs)
        self.passed_over_s: dict[int, int] = {}
        self.history: dict[int, list[int]] = {}
        self.freed = False  # nodes came back since the last pass
        self.corrected = False  # a running job was given more time since the last pass
        self.reservations: list[tuple[int, int]] = []  # (job, latest start)

    def run(self) -> list[int]:
        """Return the start of each job."""
        while (event_s := self.next_event_s()) is not None:
            self.now_s = event_s
            if self.take_events() or event_s in [at_s for at_s, _ in self.peaks]:
                period_s = self.rules.period_s or 1
                self.wanted_pass_s = -(-event_s // period_s) * period_s
            if self.wanted_pass_s == event_s:
                self.wanted_pass_s = None
                self.settle()
                self.run_pass()
        return self.start_s

    def next_event_s(self) -> int | None:
        events = [job.submit_s for job in self.jobs[self.submitted : self.submitted + 1]]
        events += [self.end_s(job) for job in self.running]
        if self.queue:
            events += [at_s for at_s, _ in self.peaks if at_s > self.now_s]
            events += [] if self.wanted_pass_s is None else [self.wanted_pass_s]
        return min(events, default=None)

    def take_events(self) -> bool:
        ends = sorted((job for job in self.running if self.end_s(job) == self.now_s), key=self.running.index)
        submissions = [number for number, job in enumerate(self.jobs) if job.submit_s == self.now_s]
        submissions = [number for number in submissions if number >= self.submitted]
        if self.rules.pass_per_event:
            submissions = submissions[:1]
            ends = [] if submissions else ends[:1]
        for job in ends:
            self.end(job)
        for job in submissions:
            self.submit(job)
        return bool(ends or submissions)

    def submit(self, number: int) -> None:
        job = self.jobs[number]
        last_two = self.history.get(job.user, [])[-2:]
        self.planned_s[number] = job.estimate_s
        if self.rules.estimates == EXACT_RUNTIME:
            self.planned_s[number] = job.runtime_s
        elif self.rules.estimates == PREDICTED_RUNTIME and len(last_two) == 2:
            self.planned_s[number] = min(job.estimate_s, max(1, sum(last_two) // 2))
        self.queue.append(number)
        self.submitted += 1

    def start(self, number: int) -> None:
        self.queue.remove(number)
        self.running.append(number)
        self.start_s[number] = self.now_s

    def end(self, number: int) -> None:
        self.running.remove(number)
        self.freed |= number not in self.released
        self.history.setdefault(self.jobs[number].user, []).append(self.jobs[number].runtime_s)

    def end_s(self, number: int) -> int:
        return self.start_s[number] + self.jobs[number].runtime_s

    def expected_end_s(self, number: int) -> int:
        return self.start_s[number] + self.planned_s[number]

    def settle(self) -> None:
        """Correct predictions that were too short; with a pass per event, who is past his expected end has no nodes."""
        for job in self.holders():
            estimated_end_s = self.start_s[job] + self.jobs[job].estimate_s
            if self.expected_end_s(job) > self.now_s:
                continue
            if self.rules.estimates == PREDICTED_RUNTIME and estimated_end_s > self.now_s:
                self.planned_s[job] = self.jobs[job].estimate_s
                self.freed = self.corrected = True
            elif self.rules.pass_per_event:
                self.released.add(job)
                self.freed = True

    def holders(self) -> list[int]:
        return [job for job in self.running if job not in self.released]

    def free(self) -> int:
        return self.machine_size - sum(self.jobs[job].size for job in self.holders())

    def fits(self, job: int) -> bool:
        return self.jobs[job].size <= self.free()

    def run_pass(self) -> None:
        before = set(self.queue)
        self.start_jobs(self.order())
        last_started = max(before - set(self.queue), default=-1)
        for job in self.queue:
            if job < last_started:
                self.passed_over_s.setdefault(job, self.now_s)
        self.freed = self.corrected = False

    def order(self) -> list[int]:
        """Return the waiting jobs that may start, in the order of the window policy."""
        policy = self.rules.policy
        peak = next((peak for at_s, peak in reversed(self.peaks) if at_s <= self.now_s), Peak.UNKNOWN)
        if policy == ARRIVAL or peak == Peak.UNKNOWN:
            return list(self.queue)
        window, behind = self.queue[: self.rules.window], self.queue[self.rules.window :]
        kept = list(takewhile(self.overdue, window))
        rest = window[len(kept) :]
        off_peak = peak == Peak.OFF_PEAK
        if policy in (GREEDY, GREEDY_SLIDE):
            highest_power_first = off_peak == (policy == GREEDY)
            return kept + sorted_by_power(self.jobs, rest, highest_power_first) + behind
        chosen = knapsack(self.jobs, rest, self.free_behind(kept), off_peak, slide=policy == KNAPSACK_SLIDE)
        if policy == KNAPSACK_SLIDE:
            return kept + chosen
        return kept + chosen + [job for job in rest if job not in chosen] + behind

    def overdue(self, job: int) -> bool:
        since_s = self.passed_over_s.get(job)
        return since_s is not None and self.now_s - since_s > self.rules.max_postponement_s

    def free_behind(self, kept: list[int]) -> int:
        free = self.free()
        for job in kept:
            if self.jobs[job].size > free:
                break
            free -= self.jobs[job].size
        return free

    def start_jobs(self, order: list[int]) -> None:
        while order and self.fits(order[0]):
            self.start(order.pop(0))
        if not order or self.rules.discipline == FCFS:
            return
        shadow_s, extra = self.reservation(self.jobs[order[0]].size)
        self.reservations.append((order[0], shadow_s))
        if self.rules.discipline == BEST_FIT:
            order.sort(key=lambda job: -self.jobs[job].size)
        for job in order:
            if self.fits(job) and self.now_s + self.planned_s[job] <= shadow_s:
                self.start(job)
            elif self.fits(job) and self.rules.discipline == EASY and self.jobs[job].size <= extra:
                extra -= self.jobs[job].size
                self.start(job)

    def reservation(self, size: int) -> tuple[int, int]:
        """Return when `size` units will be free by the expected ends, and how many more there will be then."""
        ends = {job: max(self.now_s, self.expected_end_s(job)) for job in self.holders()}
        for shadow_s in sorted(set(ends.values())):
            free = self.free() + sum(self.jobs[job].size for job in ends if ends[job] <= shadow_s)
            if free >= size:
                return shadow_s, free - size
        raise AssertionError("wider than the machine")
