"""All calls of REST. Routing, checking and the document are made from this and nothing else."""

from srv.http.rest import messages, openapi, repos, sessions, streams, transcripts
from srv.http.rest.route import Route

ROUTES: tuple[Route, ...] = (
    *repos.ROUTES,
    *sessions.ROUTES,
    *messages.ROUTES,
    *streams.ROUTES,
    *transcripts.ROUTES,
    *openapi.ROUTES,
)
