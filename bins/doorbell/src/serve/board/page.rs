//! The replies of one health route, rendered when something changes and read by the ring threads without a lock.
//!
//! Does not know about: requests.
//!
//! Every thread keeps what it read last. A probe compares one number to see that it still holds, which costs less than counting a
//! reference; whoever finds another number reads anew.

use crate::checks::Demand;
use crate::config::model::{Details, HealthFormat, HealthRoute};
use crate::http::{StaticReply, Status};
use arc_swap::ArcSwap;
use doorbell_health::{Audience, Board, EndpointIndex, Format, Reply};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Everything that a health route can answer now.
#[derive(Debug)]
pub(in crate::serve) struct Page {
    look: Look,
    replies: ArcSwap<Replies>,
    /// Of what is in `replies`: written after it, so that who sees a number sees at least that.
    version: AtomicU64,
    /// Its place among what threads keep.
    place: usize,
    /// One for each check of the endpoint, in its order; none where no path asks for single checks.
    singles: Box<[ArcSwap<Views>]>,
    /// Checks that run when somebody asks.
    demands: Box<[Demand]>,
    names: HashMap<Box<[u8]>, usize>,
}

/// No two states of any page have the same number.
static VERSION_NEXT: AtomicU64 = AtomicU64::new(1);

/// What a thread read last of the page at a place, and its version.
type Kept = Option<(u64, Arc<Replies>)>;

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// How replies look, whatever the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) endpoint: EndpointIndex,
    /// Nothing where `Accept` decides.
    pub(super) format: Option<Format>,
    pub(super) details: Details,
    pub(super) headers: Vec<(String, String)>,
    pub(super) has_singles: bool,
}

/// The replies of this moment.
#[derive(Debug)]
pub(in crate::serve) struct Replies {
    /// For whoever asks without a query, where neither who he is nor what he accepts matters.
    pub(in crate::serve) plain: Option<StaticReply>,
    /// By format.
    views: Vec<[Views; Format::ALL.len()]>,
    by_audience: [usize; Audience::ALL.len()],
}

/// One reply for everybody, and one for those who see details.
type Views = [StaticReply; 2];

impl Replies {
    /// Whether it matters who asks.
    pub(in crate::serve) fn differ(&self) -> bool {
        self.views.len() > 1
    }

    pub(in crate::serve) fn reply(
        &self,
        audience: Audience,
        format: Format,
        sees_details: bool,
    ) -> Option<&StaticReply> {
        let views = self.views.get(self.by_audience[audience as usize])?;
        Some(&views[format as usize][usize::from(sees_details)])
    }
}

impl Look {
    pub(super) fn of(
        route: &HealthRoute,
        endpoint: EndpointIndex,
        headers: &[(String, String)],
        has_singles: bool,
    ) -> Self {
        let mut headers = headers.to_vec();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("cache-control")) {
            headers.push(("Cache-Control".to_owned(), "no-store".to_owned()));
        }
        let format = match route.format {
            HealthFormat::Auto => None,
            HealthFormat::HealthJson => Some(Format::HealthJson),
            HealthFormat::KubeVerbose => Some(Format::Kube),
            HealthFormat::Spring => Some(Format::Spring),
            HealthFormat::Text => Some(Format::Text),
        };
        Self { endpoint, format, details: route.details, headers, has_singles }
    }

    /// The reply for everybody and the one for those who see details, of which a route needs one or both.
    fn views<'b>(&self, reply: impl Fn(bool) -> Option<Reply<'b>>) -> Option<Views> {
        let [all, some] = match self.details {
            Details::Always => [true, true],
            Details::Authenticated => [false, true],
            Details::Never => [false, false],
        };
        let first = self.render(&reply(all)?)?;
        let second = if all == some { first.clone() } else { self.render(&reply(some)?)? };
        Some([first, second])
    }

    fn render(&self, reply: &Reply<'_>) -> Option<StaticReply> {
        let rendered = StaticReply::new(Status::new(reply.code)?);
        let rendered = rendered.body(reply.content_type, reply.body.to_vec()).ok()?;
        self.headers.iter().try_fold(rendered, |rendered, (name, value)| rendered.header(name, value).ok())
    }

    fn replies(&self, board: &Board) -> Option<Replies> {
        let mut views: Vec<[Views; Format::ALL.len()]> = Vec::new();
        let mut by_audience = [0; Audience::ALL.len()];
        let mut seen: Vec<(u16, *const u8)> = Vec::new();
        for audience in Audience::ALL {
            let of = |format, shown| board.reply(self.endpoint, audience, format, shown);
            let text = of(Format::Text, true)?;
            // Audiences that are told the same share what was rendered for them.
            let key = (text.code, text.body.as_ptr());
            let at = match seen.iter().position(|known| *known == key) {
                Some(at) => at,
                None => {
                    let [a, b, c, d] = Format::ALL.map(|format| self.views(|shown| of(format, shown)));
                    views.push([a?, b?, c?, d?]);
                    seen.push(key);
                    seen.len() - 1
                }
            };
            by_audience[audience as usize] = at;
        }
        let plain = match (self.format, self.details, views.as_slice()) {
            (None, _, _) | (_, Details::Authenticated, _) => None,
            // Without differences in details both are the same.
            (Some(format), Details::Always | Details::Never, [only]) => {
                Some(only[format as usize][0].clone())
            }
            (Some(_), Details::Always | Details::Never, _) => None,
        };
        Some(Replies { plain, views, by_audience })
    }

    fn single(&self, board: &Board, place: usize) -> Option<Views> {
        self.views(|shown| board.check_reply(self.endpoint, place, shown))
    }
}

impl Page {
    /// `None` when the fields of the route cannot be sent. No other page of the board has this place.
    pub(super) fn build(look: Look, place: usize, demands: Box<[Demand]>, board: &Board) -> Option<Self> {
        let replies = ArcSwap::from_pointee(look.replies(board)?);
        let uses = &board.endpoint(look.endpoint)?.config().uses;
        let (mut singles, mut names) = (Vec::new(), HashMap::new());
        for (place, one) in uses.iter().enumerate().filter(|_| look.has_singles) {
            singles.push(ArcSwap::from_pointee(look.single(board, place)?));
            names.insert(board.check_name(one.check)?.as_bytes().into(), place);
        }
        let version = AtomicU64::new(VERSION_NEXT.fetch_add(1, Ordering::Relaxed));
        Some(Self { look, replies, version, place, singles: singles.into(), demands, names })
    }

    /// The format of the route; nothing where `Accept` decides.
    pub(in crate::serve) const fn format(&self) -> Option<Format> {
        self.look.format
    }

    pub(super) const fn look(&self) -> &Look {
        &self.look
    }

    /// Gives the replies of this moment to `found`; a look at them holds nobody up. Not to be called from inside.
    #[inline(always)]
    pub(in crate::serve) fn with<T>(&self, found: impl FnOnce(&Replies) -> T) -> T {
        self.demands.iter().for_each(Demand::ask);
        KEPT.with_borrow_mut(|kept| {
            let version = self.version.load(Ordering::Acquire);
            if let Some(Some((known, replies))) = kept.get(self.place)
                && *known == version
            {
                return found(replies);
            }
            found(self.keep(version, kept))
        })
    }

    #[cold]
    #[inline(never)]
    fn keep<'k>(&self, version: u64, kept: &'k mut Vec<Kept>) -> &'k Replies {
        if kept.len() <= self.place {
            kept.resize_with(self.place + 1, || None);
        }
        // At least as new as the version; if it is newer, the next look finds another one and reads it again.
        &kept[self.place].insert((version, self.replies.load_full())).1
    }

    /// Gives the reply about one check of the endpoint to `found`.
    pub(in crate::serve) fn with_single<T>(
        &self,
        name: &[u8],
        sees_details: bool,
        found: impl FnOnce(Option<&StaticReply>) -> T,
    ) -> T {
        self.demands.iter().for_each(Demand::ask);
        match self.names.get(name).and_then(|&place| self.singles.get(place)) {
            Some(single) => found(Some(&single.load()[usize::from(sees_details)])),
            None => found(None),
        }
    }

    /// Renders the endpoint anew.
    pub(super) fn renew(&self, board: &Board) {
        // The fields were good when the page was made.
        if let Some(replies) = self.look.replies(board) {
            self.replies.store(Arc::new(replies));
            self.version.store(VERSION_NEXT.fetch_add(1, Ordering::Relaxed), Ordering::Release);
        }
    }

    /// Renders the reply about one check anew.
    pub(super) fn renew_single(&self, board: &Board, place: usize) {
        if let (Some(single), Some(views)) = (self.singles.get(place), self.look.single(board, place)) {
            single.store(Arc::new(views));
        }
    }
}
