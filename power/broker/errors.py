"""What can become of a job that was to be given to a site, besides its being taken."""

from offpeak.errors import OffpeakError, SchedulerError


class NoSite(OffpeakError):
    """No site can have the job now."""


class SiteRefused(SchedulerError):
    """The site said no: it certainly does not have the job."""


class NotKnown(SchedulerError):
    """Whether the site has the job nobody knows yet: it is given to no other."""


class UnknownKey(OffpeakError):
    """No job was handed over by that key."""
