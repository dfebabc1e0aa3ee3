//! Links of a page, and their targets.

use crate::page::{Page, source_folder};
use std::path::{Component, Path};

pub(crate) struct Link {
    pub(crate) target: String,
    pub(crate) line: usize,
}

/// Inline links, images and reference definitions, except links to other sites.
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

/// Checks that the page or file exists and contains the heading.
pub(crate) fn resolve(page: &Page, link: &Link, pages: &[Page]) -> Result<(), String> {
    let (path, anchor) = match link.target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (&*link.target, None),
    };
    let name = if path.is_empty() { page.name.clone() } else { beside(&page.name, path)? };
    if !source_folder().join(&name).is_file() {
        return Err(format!("{name} does not exist"));
    }
    let Some(anchor) = anchor else { return Ok(()) };
    let target = pages.iter().find(|page| page.name == name).ok_or("only pages have headings")?;
    let anchors = target.anchors();
    if anchors.iter().any(|known| known == anchor) {
        Ok(())
    } else {
        Err(format!("{name} has no such heading, only {anchors:?}"))
    }
}

/// Resolves a relative path to a name in the source folder of the book.
fn beside(page: &str, path: &str) -> Result<String, String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str().unwrap()),
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop().ok_or("the path leaves the book")?),
            Component::RootDir | Component::Prefix(_) => return Err("the path is absolute".into()),
        }
    }
    Ok(parts.join("/"))
}

fn without_code(line: &str) -> String {
    // Code spans are removed, because brackets in code are not links.
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
