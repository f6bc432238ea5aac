"""Conservative backfilling in plain Python: a calendar of free units, second by second, made anew at each pass."""

import numpy as np
from plain_scheduler import PlainScheduler

from offpeak.model.arrays import Int64
from offpeak.plugin.window_policy import ARRIVAL


class PlainConservative(PlainScheduler):
    """`first_promise_s`: what each job was told when it was first looked at; `promise_s`: what holds now."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.promise_s: dict[int, int] = {}
        self.first_promise_s: dict[int, int] = {}
        longest_s = sum(max(1, job.runtime_s, job.estimate_s) + self.rules.period_s for job in self.jobs)
        self.seconds = self.jobs[-1].submit_s + 2 * longest_s + 100

    def start_jobs(self, order: list[int]) -> None:
        if self.corrected or any(self.promise_s.get(job, self.now_s) < self.now_s for job in self.queue):
            self.promise_s = {}
        calendar = self.calendar()
        for job in order:
            if self.freed or self.rules.policy != ARRIVAL or job not in self.promise_s:
                self.promise(calendar, job)
            if self.promise_s[job] == self.now_s and self.fits(job):
                self.start(job)

    def calendar(self) -> Int64:
        """Return the units free in each second beside running jobs, late ones for one more second, and promises."""
        calendar = np.full(self.seconds, self.machine_size)
        for job in self.holders():
            calendar[self.now_s : max(self.expected_end_s(job), self.now_s + 1)] -= self.jobs[job].size
        for job in self.queue:
            if job in self.promise_s:
                calendar[self.promised(job)] -= self.jobs[job].size
        return calendar

    def promised(self, job: int) -> slice:
        return slice(self.promise_s[job], self.promise_s[job] + max(1, self.planned_s[job]))

    def promise(self, calendar: Int64, job: int) -> None:
        """Promise the job the earliest place beside all others, unless it has one that is no later."""
        held_s = self.promise_s.get(job, self.seconds)
        if job in self.promise_s:
            calendar[self.promised(job)] += self.jobs[job].size
        for at_s in range(self.now_s, held_s + 1, self.rules.period_s or 1):
            self.promise_s[job] = at_s
            if (calendar[self.promised(job)] >= self.jobs[job].size).all():
                break
        calendar[self.promised(job)] -= self.jobs[job].size
        self.first_promise_s.setdefault(job, self.promise_s[job])
