//! The thread that serves one store: one request after the other, each until its fate is known.

use std::sync::Arc;

use mallow_fleet::push::{Backoff, Fate};

use super::chance::chance;
use super::client::StoreClient;
use super::queue::Queue;

/// Sends what is put into the queue until it is closed, and then what is left as long as the store takes it.
pub fn serve(queue: &Arc<Queue>, mut client: StoreClient) {
    let mut backoff = Backoff::default();
    while let Some(request) = queue.take() {
        let fate = client.send(&request);
        match &fate {
            Fate::Later { after, .. } => {
                let wait = backoff.wait(*after, chance());
                let was_last = queue.is_closed();
                queue.settle(&fate, Some(request));
                if was_last {
                    break;
                }
                queue.pause(wait);
            }
            _ => {
                backoff.reset();
                queue.settle(&fate, None);
            }
        }
    }
    queue.end();
}
