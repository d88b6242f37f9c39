"""The service: the pipelines over HTTP, and a page to try them on.

request --body--> records --prepare--> pieces --waiting, a pass at a time--> raws --finish--> rows --> response

`create_app` is a function of its pipelines: nothing is loaded here, and nothing happens on import.
"""

from tagsmith.service.app import create_app
from tagsmith.service.limits import Limits

__all__ = ["Limits", "create_app"]
