//! The operators' book: generated pages match the code, links have targets, and doorbell accepts
//! the examples.
//!
//! `DOORBELL_BLESS=1` regenerates the pages.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod blocks;
mod commands;
mod events;
mod keys;
mod links;
mod messages;
mod metrics;
mod page;
mod source;

use page::{Page, pages, source_folder};

#[test]
fn generated_pages_follow_from_the_code() {
    let bless = std::env::var_os("DOORBELL_BLESS").is_some();
    let mut stale = Vec::new();
    for (name, text) in [
        ("reference/commands.md", commands::page()),
        ("reference/events.md", events::page()),
        ("reference/keys.md", keys::page()),
        ("reference/metrics.md", metrics::page()),
    ] {
        assert!(text.starts_with(page::GENERATED) && text.lines().count() > 60, "{name}:\n{text}");
        let path = source_folder().join(name);
        if bless {
            std::fs::write(&path, &text).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != text {
            stale.push(name);
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:?} are stale; regenerate with DOORBELL_BLESS=1 cargo test -p doorbell-proxy --test book"
    );
}

#[test]
fn the_summary_lists_every_page_once() {
    let pages = pages();
    let summary = pages.iter().find(|page| page.name == "SUMMARY.md").unwrap();
    let mut listed: Vec<String> = links::of(summary).into_iter().map(|link| link.target).collect();
    listed.sort();
    let mut found: Vec<String> = pages.iter().map(|page| page.name.clone()).collect();
    found.retain(|name| name != "SUMMARY.md");
    found.sort();
    let lacking: Vec<_> = found.iter().filter(|page| !listed.contains(page)).collect();
    let extra: Vec<_> = listed.iter().filter(|page| !found.contains(page)).collect();
    assert!(
        lacking.is_empty() && extra.is_empty(),
        "SUMMARY.md does not list {lacking:?}, and lists missing pages {extra:?}"
    );
    assert_eq!(listed, found, "SUMMARY.md lists a page twice");
    assert!(found.len() >= 50, "{}", found.len());
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let (mut count, mut broken) = (0, Vec::new());
    for page in &pages {
        for link in links::of(page) {
            count += 1;
            if let Err(why) = links::resolve(page, &link, &pages) {
                broken.push(format!("{}:{}: {}: {why}", page.name, link.line, link.target));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(count >= 100, "only {count} links");
}

/// Sums the checks of the blocks in `languages`, and collects the errors.
fn every_block(languages: &[&str], count_min: usize, check: impl Fn(&page::Block) -> Result<usize, String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages() {
        for block in page.blocks.iter().filter(|block| languages.contains(&block.language())) {
            match check(block) {
                Ok(checked) => count += checked,
                Err(why) => wrong.push(format!("{}:{}: {why}\n{}", page.name, block.line, block.text)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= count_min, "only {count} checks of {languages:?}");
}

#[test]
fn every_configuration_is_valid() {
    every_block(&["toml"], 20, blocks::configuration);
}

#[test]
fn every_command_line_is_accepted() {
    every_block(&["console", "sh"], 40, blocks::commands);
}

#[test]
fn code_blocks_name_a_known_language() {
    let unknown = |page: &Page| {
        let blocks = page.blocks.iter().filter(|block| !blocks::LANGUAGES.contains(&block.language()));
        blocks.map(|block| format!("{}:{}: {:?}", page.name, block.line, block.info)).collect::<Vec<_>>()
    };
    let unknown: Vec<String> = pages().iter().flat_map(unknown).collect();
    assert!(unknown.is_empty(), "commands go into `console`, output into `text`: {unknown:#?}");
}

/// Comments cite decisions by number, so a number must keep its page.
#[test]
fn cited_decisions_exist() {
    let text = source::all();
    let cited = text.match_indices("ecision 0").filter_map(|(at, _)| text.get(at + 8..at + 12));
    let cited: std::collections::BTreeSet<&str> = cited.collect();
    let gone =
        cited.iter().filter(|number| !source_folder().join(format!("decisions/{number}.md")).is_file());
    let gone: Vec<_> = gone.collect();
    assert!(gone.is_empty(), "{gone:?}");
    assert!(cited.len() >= 2, "{cited:?}");
}

#[test]
fn troubleshooting_quotes_messages_that_exist() {
    let page = pages().into_iter().find(|page| page.name == "troubleshooting.md").unwrap();
    let symptoms = page.text.lines().filter(|line| line.starts_with("## ")).count();
    let messages = messages::quoted(&page.text);
    assert!(symptoms >= 20 && messages.len() >= 20, "{symptoms} symptoms, {} messages", messages.len());
    let text = source::all();
    let gone: Vec<_> = messages.iter().filter(|message| !messages::is_in(message, &text)).collect();
    assert!(gone.is_empty(), "no source file contains {gone:#?}");
}
