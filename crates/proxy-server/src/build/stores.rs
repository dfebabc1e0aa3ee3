//! Opens the directories and link maps (`redirect.map`) of a configuration once, for all its
//! listeners.

use super::compute::ScanRunner;
use crate::guards::Refusal;
use crate::reload::watch::Watched;
use crate::routes::files::Directory;
use crate::routes::links::Links;
use doorbell_proxy_config::model::{Action, Config};
use std::collections::HashMap;

/// Directories and link maps, by the name of their route.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    directories: HashMap<String, Directory>,
    links: HashMap<String, Links>,
}

impl Stores {
    /// Opens the directories and link maps of `config`, and adds their readers to `watched`.
    pub(crate) fn open(
        config: &Config,
        scan_runner: &ScanRunner,
        watched: &mut Vec<Box<dyn Watched>>,
    ) -> Result<Self, Refusal> {
        let mut stores = Self::default();
        for route in &config.routes {
            match route.action() {
                Action::Files(files) => {
                    let (directory, reader) =
                        Directory::open(files.clone(), route.fields(), scan_runner.for_another_reader());
                    stores.directories.insert(route.name.clone(), directory);
                    watched.push(Box::new(reader));
                }
                Action::Links(redirect) => {
                    let map = redirect.map.as_ref().map(|map| map.value.clone()).unwrap_or_default();
                    let (links, reader) = Links::open(map, scan_runner.for_another_reader())
                        .map_err(|why| format!("route {}: {why}", route.name))?;
                    stores.links.insert(route.name.clone(), links);
                    watched.push(Box::new(reader));
                }
                Action::Grpc | Action::Health(_) | Action::Push | Action::Redirect(_) | Action::Reply(_) => {}
            }
        }
        Ok(stores)
    }

    pub(crate) fn directory(&self, route: &str) -> Option<&Directory> {
        self.directories.get(route)
    }

    pub(crate) fn links(&self, route: &str) -> Option<&Links> {
        self.links.get(route)
    }
}
