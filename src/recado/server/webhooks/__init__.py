"""The service as a caller: notifications by POST to the URL that a subscription names."""

from __future__ import annotations
