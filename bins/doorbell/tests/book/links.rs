//! Links of a page, and where they lead.
//!
//! Does not know about: the network; links to other sites are not followed.

use crate::page::{Page, source_folder};
use std::path::{Component, Path};

pub(crate) struct Link {
    pub(crate) target: String,
    pub(crate) line: usize,
}

/// Inline links and images, and definitions of links by name; none of those to other sites.
pub(crate) fn of(page: &Page) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, text) in &page.prose {
        let text = without_code(text);
        let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let defined =
            text.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
        for target in inline.chain(defined) {
            let target = target.split(" \"").next().unwrap_or_default().trim();
            if !target.contains("://") && !target.starts_with("mailto:") {
                links.push(Link { target: target.to_owned(), line: *line });
            }
        }
    }
    links
}

/// The page or file is there, and the heading in it.
pub(crate) fn resolve(page: &Page, link: &Link, pages: &[Page]) -> Result<(), String> {
    let (path, anchor) = match link.target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (&*link.target, None),
    };
    let name = if path.is_empty() { page.name.clone() } else { beside(&page.name, path)? };
    if !source_folder().join(&name).is_file() {
        return Err(format!("there is no {name}"));
    }
    let Some(anchor) = anchor else { return Ok(()) };
    let target = pages.iter().find(|page| page.name == name).ok_or("only pages have headings")?;
    let anchors = target.anchors();
    if anchors.iter().any(|known| known == anchor) {
        Ok(())
    } else {
        Err(format!("{name} has no heading for it, only {anchors:?}"))
    }
}

/// A relative path, as a name in the folder of sources.
fn beside(page: &str, path: &str) -> Result<String, String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str().unwrap()),
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop().ok_or("it leaves the book")?),
            Component::RootDir | Component::Prefix(_) => return Err("it is absolute".into()),
        }
    }
    Ok(parts.join("/"))
}

fn without_code(line: &str) -> String {
    // A link's text may be code; what stands in it is of no interest either way.
    line.split('`').step_by(2).collect()
}

#[test]
fn broken_links_are_found() {
    let pages = crate::page::pages();
    let summary = pages.iter().find(|page| page.name == "SUMMARY.md").unwrap();
    for (target, is_good) in [
        ("introduction.md", true),
        ("./introduction.md", true),
        ("gone.md", false),
        ("introduction.md#gone", false),
        ("../../../README.md", false),
        ("/introduction.md", false),
        ("#gone", false),
    ] {
        let link = Link { target: target.into(), line: 1 };
        assert_eq!(resolve(summary, &link, &pages).is_ok(), is_good, "{target}");
    }
}
