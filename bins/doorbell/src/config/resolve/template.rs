//! Bodies and header fields of replies with names in them: is there a value for each, in every request?
//!
//! Does not know about: how a reply is written.

use super::super::template::{NAMES, TEMPLATE_LEN_MAX, Template};
use super::super::written;
use super::route::Resolver;
use crate::http::router;
use doorbell_config::{At, Problem, did_you_mean};

impl Resolver<'_> {
    pub(super) fn check_templates(&self, route: &written::Route, reply: &written::Reply) {
        let fields = route.headers.iter().chain(&reply.headers).map(|(_, value)| value);
        for text in reply.body.iter().chain(fields) {
            let template = Template::parse(&text.value);
            if template.fixed().is_none() && text.value.len() > TEMPLATE_LEN_MAX {
                let message = "a text with names in it is made anew for every request, so it must be short";
                self.problems.add(
                    Problem::error("out-of-range", text.span.clone(), message)
                        .help("at most 16KiB; write `{{` for a brace that is no name's"),
                );
            }
            for path in route.paths.iter().flat_map(|paths| &paths.value) {
                self.check_params(text, &template, path);
            }
        }
    }

    fn check_params(&self, text: &At<String>, template: &Template, path: &At<String>) {
        // A path that cannot be read was told.
        let Ok(known) = router::param_names(&path.value) else { return };
        for name in template.params().filter(|name| !known.iter().any(|known| known == name)) {
            let names: Vec<&str> = known.iter().map(|name| &**name).chain(NAMES).collect();
            let escape = format!("`{{{{{name}}}` for the text itself");
            let help = match did_you_mean(name, &names) {
                Some(other) => format!("{other} Or write {escape}"),
                None => format!("there are `{}`; write {escape}", names.join("`, `")),
            };
            let message = format!("path {:?} has no parameter `{name}`", path.value);
            self.problems.add(
                Problem::error("unknown-parameter", text.span.clone(), message)
                    .also(path.span.clone(), "of this path")
                    .help(help),
            );
        }
    }
}
