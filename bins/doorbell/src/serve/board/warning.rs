//! What a kubelet is told of an endpoint that is degraded: a redirect that it does not follow, with the reason as body.
//!
//! Does not know about: who asks.
//!
//! The prober of the kubelet goes to no other host: it takes such a redirect as a success, and the body becomes the text of an event of type
//! `Warning` (`ProbeWarning`: "Probe terminated redirects, Response body: ..").

use crate::http::{StaticReply, Status};
use doorbell_health::{Audience, Board, EndpointIndex};

/// No host has this name (RFC 2606 2), so it is never the one that was probed.
const ELSEWHERE: &str = "http://degraded.invalid/";

/// Room for the remark that more checks are degraded.
const REMARK_LEN_MAX: usize = "; 65535 more".len();

/// The reply, with the reasons if they are `shown`. `None` when the fields cannot be sent.
pub(super) fn warning(
    board: &Board,
    endpoint: EndpointIndex,
    shown: bool,
    headers: &[(String, String)],
) -> Option<StaticReply> {
    let text = text(board, endpoint, shown)?;
    // There is one place to go to.
    let others = headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("location"));
    let others = others.map(|(name, value)| (name.as_str(), value.as_str()));
    let fields = [("Content-Type", "text/plain; charset=utf-8"), ("Location", ELSEWHERE)];
    StaticReply::whole(Status::FOUND, fields.into_iter().chain(others), text).ok()
}

/// One line, which is how events are shown: what is degraded, and what made it so.
fn text(board: &Board, index: EndpointIndex, shown: bool) -> Option<String> {
    let endpoint = board.endpoint(index)?;
    let (verdict, _) = endpoint.answer(Audience::Kubelet);
    let mut text = format!("{} is {}", endpoint.config().name, verdict.state.as_str());
    if !shown {
        return Some(text);
    }
    let note = endpoint.note(verdict);
    let notes = (!note.is_empty()).then(|| note.to_owned());
    let checks = endpoint.deciding(verdict).filter_map(|one| {
        let check = board.check(one.check)?;
        let (name, state) = (board.check_name(one.check)?, check.state().as_str());
        Some(match check.reason() {
            "" => format!("{name} {state}"),
            reason => format!("{name} {state} ({reason})"),
        })
    });
    let parts: Vec<String> = notes.into_iter().chain(checks).collect();
    let len_max = endpoint.config().body_len_max - REMARK_LEN_MAX;
    for (place, part) in parts.iter().enumerate() {
        let separator = if place == 0 { ": " } else { "; " };
        if text.len() + separator.len() + part.len() > len_max {
            text.push_str(&format!("; {} more", parts.len() - place));
            break;
        }
        text.push_str(separator);
        text.push_str(part);
    }
    Some(text.replace(char::is_control, "?"))
}
