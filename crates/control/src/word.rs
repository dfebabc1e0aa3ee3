//! Enums with a word for each value: counterparts of enums of `doorbell_health`, which does not
//! know about formats, and enums for maintenance and the lifecycle.

use bitcode::{Decode, Encode};
use serde::Serialize;
use std::fmt;

/// Converts an enum of `doorbell_health` into its counterpart.
macro_rules! counterparts {
    ($($name:ident of $origin:ident { $($variant:ident),+ $(,)? })+) => {$(
        impl From<doorbell_health::$origin> for $name {
            fn from(origin: doorbell_health::$origin) -> Self {
                match origin {
                    $(doorbell_health::$origin::$variant => Self::$variant),+
                }
            }
        }
    )+};
}

/// Defines an enum and its words.
macro_rules! own_words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $word:expr),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$inner])* $variant),+
        }

        impl $name {
            /// All variants, in the order of their discriminants.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    )+};
}

/// Defines an enum with the variants and words of an enum of `doorbell_health`.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident of $origin:ident { $($variant:ident),+ $(,)? })+) => {$(
        own_words! {
            $(#[$doc])*
            #[expect(missing_docs, reason = "the original enum documents the variants")]
            $name { $($variant = doorbell_health::$origin::$variant.as_str()),+ }
        }
        counterparts! { $name of $origin { $($variant),+ } }
    )+};
}

words! {
    /// The state of a check.
    CheckWord of CheckState { Degraded, Down, Flapping, GoingDown, GoingUp, Maintenance, Stale, Unknown, Up }

    /// The outcome of one run of a check.
    OutcomeWord of Outcome { Degraded, Error, Failure, Maintenance, Success, Timeout, Unknown }

    /// The state of an endpoint.
    EndpointWord of EndpointState { Degraded, Down, Drain, Maintenance, Up }

    /// The rule that determines the state of an endpoint.
    CauseWord of Cause { Checks, Drain, FailOpen, Forced, Latch, Maintenance, Quorum }

    /// The effect of a failed check on an endpoint.
    SeverityWord of Severity { Degrading, Info, Required }
}

own_words! {
    /// The kind of client that a reply is for.
    AudienceWord {
        /// The kubelet.
        Kubelet = "kubelet",
        /// A load balancer.
        LoadBalancer = "load_balancer",
        /// Any other client.
        Other = "other",
    }

    /// How an endpoint counts the state of a check.
    ClassWord {
        /// Serving, with a warning.
        Degraded = "degraded",
        /// Not serving.
        Down = "down",
        /// In maintenance.
        Maintenance = "maintenance",
        /// No result yet, or the checked target reports an unknown state.
        Unknown = "unknown",
        /// Serving.
        Up = "up",
    }

    /// Source of maintenance. If a target has several sources, the first source in this order takes
    /// effect.
    HoldSource {
        /// `doorbell maint` or `POST /-/maint`, stored in the state file.
        Operator = "operator",
        /// A file in `maintenance.file_dir`.
        File = "file",
        /// `[[maintenance.window]]`.
        Window = "window",
    }

    /// Lifecycle of a running instance.
    #[derive(Default)]
    Lifecycle {
        /// Not serving yet.
        #[default]
        Starting = "starting",
        /// Serving.
        Ready = "ready",
        /// Serving but not ready: all endpoints drain.
        Draining = "draining",
        /// No new connections; open ones may finish.
        Stopping = "stopping",
    }
}

/// How a state is shown to people, on a terminal and on pages; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// Not serving.
    Bad,
    /// Serving, but not as it should.
    Warning,
    /// Nothing is known.
    Unknown,
    /// Not serving on request of an operator.
    Planned,
    /// As it should be.
    Good,
}

impl CheckWord {
    /// How the state is shown. A stale check looks as [`ClassWord`] counts it by default.
    #[must_use]
    pub const fn look(self) -> Look {
        match self {
            Self::Degraded | Self::GoingDown | Self::GoingUp => Look::Warning,
            Self::Down | Self::Flapping | Self::Stale => Look::Bad,
            Self::Maintenance => Look::Planned,
            Self::Unknown => Look::Unknown,
            Self::Up => Look::Good,
        }
    }
}

impl EndpointWord {
    /// How the state is shown.
    #[must_use]
    pub const fn look(self) -> Look {
        match self {
            Self::Degraded => Look::Warning,
            Self::Down => Look::Bad,
            Self::Drain | Self::Maintenance => Look::Planned,
            Self::Up => Look::Good,
        }
    }
}

impl ClassWord {
    /// How the class is shown.
    #[must_use]
    pub const fn look(self) -> Look {
        match self {
            Self::Degraded => Look::Warning,
            Self::Down => Look::Bad,
            Self::Maintenance => Look::Planned,
            Self::Unknown => Look::Unknown,
            Self::Up => Look::Good,
        }
    }
}

impl OutcomeWord {
    /// How the outcome is shown.
    #[must_use]
    pub const fn look(self) -> Look {
        match self {
            Self::Degraded => Look::Warning,
            Self::Error | Self::Failure | Self::Timeout => Look::Bad,
            Self::Maintenance => Look::Planned,
            Self::Success => Look::Good,
            Self::Unknown => Look::Unknown,
        }
    }
}

counterparts! {
    AudienceWord of Audience { Kubelet, LoadBalancer, Other }
    ClassWord of Class { Degraded, Down, Maintenance, Unknown, Up }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_words_of_the_logs() {
        fn same<W: Serialize + Copy>(words: impl IntoIterator<Item = W>, as_str: impl Fn(W) -> &'static str) {
            for word in words {
                assert_eq!(serde_json::json!(word), as_str(word));
            }
        }
        same(AudienceWord::ALL, AudienceWord::as_str);
        same(CauseWord::ALL, CauseWord::as_str);
        same(CheckWord::ALL, CheckWord::as_str);
        same(ClassWord::ALL, ClassWord::as_str);
        same(EndpointWord::ALL, EndpointWord::as_str);
        same(HoldSource::ALL, HoldSource::as_str);
        same(Lifecycle::ALL, Lifecycle::as_str);
        same(OutcomeWord::ALL, OutcomeWord::as_str);
        same(SeverityWord::ALL, SeverityWord::as_str);
        assert_eq!(doorbell_health::CheckState::ALL.map(CheckWord::from), CheckWord::ALL);
        assert_eq!(doorbell_health::EndpointState::ALL.map(EndpointWord::from), EndpointWord::ALL);
    }
}
