//! The thread that serves one store: one request after the other, each until its fate is known.

use std::sync::Arc;
use std::time::Duration;

use mallow_fleet::push::{Backoff, Fate};

use super::chance::chance;
use super::client::StoreClient;
use super::queue::Queue;

/// Sends what is put into the queue until it is closed, and then what is left as long as the store takes it.
pub fn serve(queue: &Arc<Queue>, mut client: StoreClient) {
    let mut backoff = Backoff::default();
    while let Some(request) = queue.take() {
        let fate = client.send(&request);
        let wait = wait_after(&fate, &mut backoff, chance());
        let again = matches!(fate, Fate::Later { .. });
        let was_last = again && queue.is_closed();
        queue.settle(&fate, again.then_some(request));
        if was_last {
            break;
        }
        if let Some(wait) = wait {
            queue.pause(wait);
        }
    }
    queue.end();
}

/// Time for which the store is left alone after an attempt that failed. One of unknown fate counts too: its profile is
/// lost, and the next one would be if it followed at once to a store that is going down. `chance`: from 0 to 1.
fn wait_after(fate: &Fate, backoff: &mut Backoff, chance: f64) -> Option<Duration> {
    let asked = match fate {
        Fate::Later { after, .. } => *after,
        Fate::Unknown(_) => None,
        Fate::Sent | Fate::Rejected(_) => {
            backoff.reset();
            return None;
        }
    };
    Some(backoff.wait(asked, chance))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mallow_fleet::push::{Backoff, Fate};

    use super::wait_after;

    #[test]
    fn a_store_that_goes_down_is_left_alone_also_where_the_fate_is_unknown() {
        let mut backoff = Backoff::default();
        let why = || "x".to_owned();
        let mut wait = |fate: Fate| wait_after(&fate, &mut backoff, 1.0).map(|wait| wait.as_secs());
        assert_eq!(wait(Fate::Sent), None);
        assert_eq!(wait(Fate::Unknown(why())), Some(1));
        assert_eq!(wait(Fate::Later { after: None, why: why() }), Some(2));
        assert_eq!(wait(Fate::Later { after: Some(Duration::from_secs(30)), why: why() }), Some(30));
        // It answers again.
        assert_eq!(wait(Fate::Rejected(why())), None);
        assert_eq!(wait(Fate::Unknown(why())), Some(1));
    }
}
