"""A site's scheduler, told and asked: submit, find by key, follow, cancel. Whoever tells it goes through the door."""

from dataclasses import dataclass

from plugin.federation.site import Site
from plugin.scheduler.batch import SUBMIT_S, Batch, Errand, Ran, Standing
from power.broker.errors import NotKnown, SiteRefused
from power.broker.routes import Route, batch_of, route_of

ANSWER_S = 30.0
"""How long a list of jobs or a cancellation may take."""
ON_THE_WAY_S = 10.0


@dataclass(frozen=True)
class AtSite:
    """The commands of one site and the way to where they are run."""

    name: str
    batch: Batch
    route: Route

    async def submit(self, errand: Errand) -> str:
        """Return the job that the site has taken; SiteRefused if it certainly has not, NotKnown otherwise."""
        words = self.batch.submit_words(errand)
        ran = await self.route.run(words, stdin=errand.script, timeout_s=SUBMIT_S + ON_THE_WAY_S)
        if job := self.batch.submitted(ran):
            return job
        if refused := self.batch.refused(ran):
            raise SiteRefused(f"{self.name}: {refused}")
        raise NotKnown(f"{self.name}: {_said(ran)}")

    async def find(self, key: str) -> Standing | None:
        """Return the job of that key, None if the site says that it has none; NotKnown if it does not say."""
        return self.batch.found(await self._listed(), key=key)

    async def standing(self, job: str) -> Standing | None:
        """Return a job, None if the site does not know it any more; NotKnown if it does not say."""
        return self.batch.standing(await self._listed(), job=job)

    async def cancel(self, job: str) -> str:
        """Cancel a job; SiteRefused with what the site says against it."""
        ran = await self.route.run(self.batch.cancel_words(job), timeout_s=ANSWER_S)
        if ran.code != 0:
            raise SiteRefused(f"{self.name}: job {job}: {_said(ran)}")
        return "cancelled"

    async def _listed(self) -> str:
        ran = await self.route.run(self.batch.find_words(), timeout_s=ANSWER_S)
        if ran.code != 0:
            raise NotKnown(f"{self.name}: {_said(ran)}", hint="ask again when it answers: the same key finds out")
        return ran.output


def at_site(site: Site) -> AtSite:
    """Return how that site is told and asked."""
    return AtSite(site.name, batch_of(site), route_of(site))


def _said(ran: Ran) -> str:
    lines = (ran.complaint.strip() or ran.output.strip()).splitlines()
    return lines[-1] if lines else f"ended with {ran.code} and did not say why"
