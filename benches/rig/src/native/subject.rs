//! What takes a turn: a server of the catalogue, or doorbell with other switches.
//!
//! Does not know about: cores, loads.

use std::path::PathBuf;

use crate::image::servers::{Entry, Place};
use crate::image::{OurPrograms, programs};
use crate::tls::Set;
use crate::variant::Variant;

/// One server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// Of the catalogue.
    Entry(&'a Entry),
    /// Set up with a certificate.
    Tls(Set<'a>),
    /// doorbell with these switches.
    Variant(&'a Variant),
}

impl Subject<'_> {
    /// In messages.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Entry(entry) => entry.name,
            Self::Tls(set) => set.name(),
            Self::Variant(variant) => &variant.name,
        }
    }

    /// The file that is started.
    pub(super) fn program(&self, ours: &OurPrograms) -> Result<PathBuf, String> {
        match self {
            Self::Entry(entry) => programs::outside(entry, ours).map_err(|error| error.to_string()),
            Self::Tls(set) => set.program(ours),
            Self::Variant(_) => Ok(ours.doorbell.clone()),
        }
    }

    /// The files it needs at `place`: paths and contents.
    pub(super) fn files_at(&self, place: &Place<'_>) -> Vec<(String, String)> {
        match self {
            Self::Entry(entry) => entry.files_at(place),
            Self::Tls(set) => set.files_at(place),
            Self::Variant(variant) => variant.files_at(place),
        }
    }

    /// How `program` is started at `place`.
    pub(super) fn argv(&self, program: &str, place: &Place<'_>) -> Vec<String> {
        match self {
            Self::Entry(entry) => entry.server_at(program, place).argv,
            Self::Tls(set) => set.argv(program, place),
            Self::Variant(variant) => variant.server_at(program, place).argv,
        }
    }
}
