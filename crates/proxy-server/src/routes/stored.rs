//! Handlers of routes with files: the files of a directory, and the redirects of a link map.

use super::fixed::Fixed;
use crate::routes::files::Directory;
use crate::routes::links::Links;
use doorbell::http::router::Params;
use doorbell::http::{Replied, Request, Responder, Status};
use doorbell::{Offload, offload};
use doorbell_proxy_config::model;

/// Serves the files of a directory. The last parameter of the path is the name of the file.
#[derive(Debug)]
pub(super) struct FilesHandler {
    directory: Directory,
    /// Compute lane for jobs that look up files that are not in memory.
    lane: Option<Offload>,
}

/// Serves the redirects of a link map. The path of the request selects the redirect.
#[derive(Debug)]
pub(super) struct LinksHandler {
    links: Links,
    /// Location and status for paths that are not in the map.
    default: Option<(String, Status)>,
    headers: Vec<(String, String)>,
}

impl FilesHandler {
    pub(super) const fn new(directory: Directory, lane: Option<Offload>) -> Self {
        Self { directory, lane }
    }

    pub(super) fn send<'a>(
        &self,
        params: &Params<'_, '_>,
        request: &Request<'_>,
        fixed: &Fixed,
        reply: Responder<'a>,
    ) -> Replied<'a> {
        let name = params.iter().last().map(|(_, value)| value).unwrap_or_default();
        self.directory.with(name, |file| match (file, &self.lane) {
            (Some(file), _) => reply.send(file),
            (None, Some(lane)) if Directory::may_have(name) => self.fetch(name, lane, request, fixed, reply),
            (None, _) => reply.send(&fixed.not_found),
        })
    }

    /// Looks up a new file in a job, because a CA requests a challenge as soon as the ACME client
    /// reports it as ready.
    #[inline(never)]
    fn fetch<'a>(
        &self,
        name: &[u8],
        lane: &Offload,
        request: &Request<'_>,
        fixed: &Fixed,
        reply: Responder<'a>,
    ) -> Replied<'a> {
        let (directory, name) = (self.directory.clone(), Box::<[u8]>::from(name));
        let not_found = fixed.not_found.clone();
        lane.run(request, reply, move || {
            let found = directory.fetch(&name).unwrap_or(not_found);
            offload::JobReply::then(move |reply| reply.send(&found))
        })
    }
}

impl LinksHandler {
    pub(super) fn build(map: &model::Redirect, links: Links, headers: Vec<(String, String)>) -> Option<Self> {
        let default = match &map.default {
            Some(location) => Some((location.value.clone(), Status::new(map.status.code())?)),
            None => None,
        };
        Some(Self { links, default, headers })
    }

    pub(super) fn send<'a>(&self, request: &Request<'_>, fixed: &Fixed, reply: Responder<'a>) -> Replied<'a> {
        let links = self.links.load();
        if let Some(link) = links.find(request.path_bytes()) {
            let status = Status::new(link.status.code()).unwrap_or(Status::FOUND);
            return self.send_to(link.location, status, reply);
        }
        match &self.default {
            Some((location, status)) => self.send_to(location.as_bytes(), *status, reply),
            None => reply.send(&fixed.not_found),
        }
    }

    fn send_to<'a>(&self, location: &[u8], status: Status, reply: Responder<'a>) -> Replied<'a> {
        let builder = reply.status(status).header("Location", location);
        let headers = self.headers.iter();
        headers.fold(builder, |builder, (name, value)| builder.header(name, value)).empty()
    }
}
