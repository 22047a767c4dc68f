//! A token that is good once, for an address that stands in a command line: other users of the machine can read it
//! there.
//!
//! Only a socket of this server's user may use it. A second use ends what the first one got: one of the two was not the
//! browser.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::Token;
use crate::peer::{Peer, PeerUser};

/// Somebody had the token who should not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// The token was used a second time: nobody who used it may ask any more.
    Again,
    /// Another user of the machine was refused.
    OtherUser(u32),
    /// Somebody was refused of whom the kernel does not say which user it is.
    UnknownUser,
}

/// A machine can have many other users.
const MOST_REPORTS: usize = 8;

pub struct Once {
    token: Token,
    /// The token that the first user gets for this one.
    session: Token,
    state: Mutex<State>,
    report: Box<dyn Fn(Misuse) + Send + Sync>,
    /// Reported already: whoever was refused can try again and again.
    reported: Mutex<Vec<Misuse>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    Used,
    Revoked,
}

impl Once {
    /// The token, what its user gets in its place, and what to do if somebody else has it: once for each misuse.
    pub fn new(token: Token, session: Token, report: impl Fn(Misuse) + Send + Sync + 'static) -> Self {
        Self { token, session, state: Mutex::new(State::Fresh), report: Box::new(report), reported: Mutex::default() }
    }

    pub(crate) fn is(&self, given: &str) -> bool {
        self.token.is(given)
    }

    /// The session token for a client that brings the token; None if the client may not have it.
    pub(crate) fn exchange(&self, peer: Option<Peer>) -> Option<&Token> {
        let misuse = match peer.map_or(PeerUser::Unknown, Peer::user) {
            PeerUser::Trusted => {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                match *state {
                    State::Fresh => {
                        *state = State::Used;
                        return Some(&self.session);
                    }
                    State::Used => *state = State::Revoked,
                    State::Revoked => return None,
                }
                Misuse::Again
            }
            PeerUser::Other(uid) => Misuse::OtherUser(uid),
            PeerUser::Unknown => Misuse::UnknownUser,
        };
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if !reported.contains(&misuse) && reported.len() < MOST_REPORTS {
            reported.push(misuse);
            drop(reported);
            (self.report)(misuse);
        }
        None
    }

    /// Whether `given` is the session token that the first user got, and is still good.
    pub(crate) fn is_session(&self, given: &str) -> bool {
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state == State::Used && self.session.is(given)
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Once")
    }
}
