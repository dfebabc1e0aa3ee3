//! Answers that come from files: those of a directory, and the links of a map.
//!
//! Does not know about: reading files.

use super::answer::Answer;
use super::{Fixed, Placed, all_headers};
use crate::config::model::{Route, Stored};
use crate::http::router::Match;
use crate::http::{Answered, Request, Responder, Status};
use crate::serve::files::Directory;
use crate::serve::links::Links;
use crate::serve::stored::Stores;
use std::sync::Arc;

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

pub(super) fn build(route: &Route<Stored>, own: &[(String, String)], stores: &Stores) -> Option<Answer> {
    match &route.action {
        Stored::Files(_) => {
            let directory = stores.directory(&route.name)?.clone();
            Some(Answer::Files(Arc::new(FilesAnswer { directory })))
        }
        Stored::Links(map) => {
            let default = match &map.default {
                Some(location) => Some((location.clone(), Status::new(map.status.code())?)),
                None => None,
            };
            let links = stores.links(&route.name)?.clone();
            let headers = all_headers(&route.headers, own);
            Some(Answer::Links(Arc::new(LinksAnswer { links, default, headers })))
        }
    }
}

impl FilesAnswer {
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
