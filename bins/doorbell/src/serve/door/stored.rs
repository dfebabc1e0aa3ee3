//! Answers that come from files: those of a directory, and the links of a map.
//!
//! Does not know about: reading files.

use super::{Fixed, Placed};
use crate::config::model::LinkMap;
use crate::http::router::Match;
use crate::http::{Answered, Request, Responder, Status};
use crate::serve::files::Directory;
use crate::serve::links::Links;

/// The files of a directory, by the last parameter of the path.
#[derive(Debug)]
pub(super) struct FilesAnswer {
    directory: Directory,
}

/// The links of a map, by the path.
#[derive(Debug)]
pub(super) struct LinksAnswer {
    links: Links,
    /// Where a path goes that is not among them, with which status.
    default: Option<(String, Status)>,
    headers: Vec<(String, String)>,
}

impl FilesAnswer {
    pub(super) const fn new(directory: Directory) -> Self {
        Self { directory }
    }

    pub(super) fn send(
        &self,
        found: &Match<'_, '_, Placed>,
        fixed: &Fixed,
        reply: Responder<'_>,
    ) -> Answered {
        let name = found.params.iter().last().map(|(_, value)| value).unwrap_or_default();
        self.directory.with(name, |file| match file {
            Some(file) => reply.send(file),
            None => reply.send(&fixed.not_found),
        })
    }
}

impl LinksAnswer {
    pub(super) fn build(map: &LinkMap, links: Links, headers: Vec<(String, String)>) -> Option<Self> {
        let default = match &map.default {
            Some(location) => Some((location.clone(), Status::new(map.status.code())?)),
            None => None,
        };
        Some(Self { links, default, headers })
    }

    pub(super) fn send(&self, request: &Request<'_>, fixed: &Fixed, reply: Responder<'_>) -> Answered {
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

    fn send_to(&self, location: &[u8], status: Status, reply: Responder<'_>) -> Answered {
        let builder = reply.status(status).header("Location", location);
        let headers = self.headers.iter();
        headers.fold(builder, |builder, (name, value)| builder.header(name, value)).empty()
    }
}
