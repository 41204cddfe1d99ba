//! Cleans up after processes that have died.

use std::sync::atomic::Ordering::Release;

use soft_hca_core::engine::{Env, Tokens};

use crate::fabric::Fabric;

impl Fabric {
    /// Cleans up behind a process that has ended: its locks, the credits that it has reserved, and
    /// the send queues of others that it has run. Gives the channels that it may owe a token, see
    /// [`Fabric::give_token`], and whether all is done: if not, this is to be called again.
    pub(crate) fn reap(&self, dead: usize) -> (Vec<(u32, u32)>, bool) {
        self.arena.procs[dead].live.store(0, Release);
        if !self.actor().release_all_of(dead) {
            return (Vec::new(), false);
        }
        let (missing_tokens, are_all) = self.actor().missing_tokens_of(dead, self.cqs.taken());
        if are_all {
            self.actor().forget_reservations(self.cqs.taken());
            self.actor().run_again(self.qps.taken());
        }
        (missing_tokens, are_all)
    }

    /// Gives a channel the token that it lacks. False if it has to be looked at again.
    pub(crate) fn give_token(&self, channel: (u32, u32)) -> bool {
        let is_readable = || self.env.is_readable(channel);
        match self.actor().tokens_of(channel, self.cqs.taken(), is_readable) {
            Tokens::Settled => true,
            Tokens::Unclear => false,
            Tokens::Missing => {
                self.env.wake_channel(channel.0, channel.1);
                // It may not be the only one.
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::objects::CqObject;
    use std::sync::Arc;

    use crate::device::Device;

    const OWNER: usize = 1;

    /// A fabric with a channel and a queue that reports there; the channel's index and generation.
    fn fabric() -> (Fabric, (u32, u32)) {
        let mut fabric = Fabric::new(vec![Arc::new(Device::local("rxe0", 7, &[]))], || 0).unwrap();
        let (channel, generation, _) = fabric.new_channel(OWNER).unwrap();
        let object = CqObject { file: 1, user_handle: 0, channel: Some((channel, generation)) };
        let cq = fabric.take_cq(object).unwrap();
        let cq = &fabric.arena.cqs[cq];
        cq.channel.store(channel as u32 + 1, Relaxed);
        cq.live.store(1, Relaxed);
        (fabric, (channel as u32, generation))
    }

    #[test]
    fn a_token_that_is_missing_is_paid_once() {
        let (fabric, channel) = fabric();
        assert!(fabric.give_token(channel), "there is no event");
        fabric.arena.cqs[0].pending_events.store(1, Relaxed);
        assert!(!fabric.give_token(channel));
        assert!(fabric.env.is_readable(channel));
        assert!(!fabric.give_token(channel), "unclear until it is read");
        fabric.env.take_tokens((channel.0 as usize, channel.1), 1);
        assert!(!fabric.env.is_readable(channel), "there was one");
        fabric.arena.cqs[0].pending_events.store(0, Relaxed);
        assert!(fabric.give_token(channel));
    }

    #[test]
    fn who_is_killed_while_it_reads_leaves_no_trace_in_the_next_channel() {
        let (mut fabric, _) = fabric();
        // All entries, for who is next gets any of them.
        fabric.arena.channels.iter().for_each(|channel| channel.reads.store(1, Relaxed));
        let (channel, generation, _) = fabric.new_channel(OWNER).unwrap();
        let channel = (channel as u32, generation);
        fabric.arena.cqs[0].channel.store(channel.0 + 1, Relaxed);
        fabric.arena.cqs[0].pending_events.store(1, Relaxed);
        fabric.give_token(channel);
        assert!(fabric.env.is_readable(channel));
    }
}
