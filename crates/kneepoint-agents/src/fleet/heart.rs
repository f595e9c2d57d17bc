//! The coordinator's heartbeat: agents stop when it does. It beats only while the coordinator itself does its rounds, so that one
//! that hangs is as good as dead.

use crate::broker::Mouth;
use crate::messages::Message;
use crate::moments::{DEAD_MAN, HEARTBEAT, LOOK, now_ns};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

#[derive(Debug)]
pub(crate) struct Heart {
    /// When the coordinator was last seen at work.
    seen_ns: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    /// Begins to beat.
    pub(crate) fn begin(mouth: Mouth, subject: String) -> Self {
        let seen_ns = Arc::new(AtomicU64::new(now_ns()));
        let stopped = Arc::new(AtomicBool::new(false));
        let (seen, over) = (Arc::clone(&seen_ns), Arc::clone(&stopped));
        let thread = thread::Builder::new().name("heart".into()).spawn(move || {
            let mut next = 0;
            while !over.load(Ordering::Relaxed) {
                let now = now_ns();
                let at_work =
                    now.saturating_sub(seen.load(Ordering::Relaxed)) < DEAD_MAN.as_nanos() as u64;
                if now >= next && at_work {
                    next = now + HEARTBEAT.as_nanos() as u64;
                    mouth.say(&subject, &Message::Beat { sent_ns: now });
                }
                thread::sleep(LOOK);
            }
        });
        Self {
            seen_ns,
            stopped,
            // Without a thread there is no beat, and no agent drives on.
            thread: thread.ok(),
        }
    }

    /// The coordinator is at work.
    pub(crate) fn seen(&self) {
        self.seen_ns.store(now_ns(), Ordering::Relaxed);
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
