use super::*;
use crate::ucma::id::State;
use crate::ucma::timer::RESPONSE_NS;

pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    pub(super) fn of<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len() as u64) as usize]
    }
}

#[test]
fn random_bytes_of_random_lengths_do_no_harm() {
    let mut world = World::new();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let files = [world.cm.open(1), world.cm.open(2)];
    for _ in 0..100_000 {
        let len = random.below(320) as usize;
        let small = random.below(2) == 0;
        let mut byte = || if small { random.below(3) as u8 } else { random.next() as u8 };
        let payload: Vec<u8> = (0..len).map(|_| byte()).collect();
        let (file, number) = (random.of(&files), random.below(26) as u32);
        let room = random.below(500) as usize;
        let answer = world.cm.command(&mut world.machine, file, number, &payload, room, world.now);
        assert!(answer.is_err() || answer.is_ok_and(|answer| answer.len() <= room));
    }
    files.into_iter().for_each(|file| world.close(file));
    check_empty(&world);
}

#[test]
fn well_formed_commands_in_any_order_keep_the_tables_together() {
    let addresses = [
        "0.0.0.0:7471",
        "10.9.0.1:7471",
        "127.0.0.1:7471",
        "[::]:7471",
        "10.9.0.1:0",
        "0.0.0.0:0",
        "10.9.0.99:1",
        "203.0.113.1:1",
        "[fd00::1]:7471",
        "239.0.0.1:0",
    ];
    let mut reached = [0; 16];
    for seed in 1..9 {
        let mut world = World::new();
        let mut random = Random(seed * 0x9e37_79b9);
        let mut files: Vec<FileId> = (0..4).map(|owner| world.cm.open(owner)).collect();
        for step in 0..10_000u64 {
            let file = random.of(&files);
            let id = match world.cm.listing().len() as u64 {
                0 => 0,
                count => world.cm.listing()[random.below(count) as usize].id,
            };
            // Mostly the file that the id belongs to.
            let owner = world.file_of(id).unwrap_or(file);
            // Half of the time what a sensible program would do next.
            let state = world.id(id).map(|id| id.state);
            let usual: &[u64] = match state {
                Some(State::Idle) => &[3, 5],
                Some(State::Bound) => &[4, 5],
                Some(State::AddrResolved) => &[7],
                Some(State::RouteResolved) => &[9],
                Some(State::Connect) => &[11, 13, 13, 15],
                Some(State::Disconnect) => &[15, 18],
                _ => &[0],
            };
            let number = if random.below(2) == 0 { random.of(usual) } else { random.below(20) };
            let at = if random.below(8) == 0 { file } else { owner };
            let variety = random.of(&[1, 3, addresses.len()]);
            let address = random.of(&addresses[..variety]);
            let len = random.of(&[0, 5, 56, 56, 57, 255]);
            let param =
                ConnParam { qp_num: 17, private_data: vec![1; len], ..ConnParam::default() };
            let _ = match number {
                0..3 if world.cm.ids.len() < 40 => {
                    world.create(file, random.below(4), random.of(&[TCP, TCP, UDP, 2, 0x13f]));
                    Ok(())
                }
                3 => world.bind(at, id, address),
                4 => world.listen(at, id, random.below(3) as u32),
                5 | 6 => world.resolve(at, id, address),
                7 | 8 => world.route(at, id),
                9 | 10 => world.connect(at, id, &param),
                11 | 12 => world.accept(at, id, random.below(3), &param),
                13 => world.establish(at, id),
                14 => world.reject(at, id, 0, &[1; 3]),
                15 => world.disconnect(at, id),
                16 => world.about(file, command::MIGRATE_ID, id, at).map(drop),
                17 => {
                    let parts: [(usize, &[u8]); 3] =
                        [(8, &[5]), (16, &sockaddr("239.0.0.1:0")), (44, &id.to_le_bytes())];
                    world.run(at, command::JOIN_IP_MCAST, &bytes(48, &parts)).map(drop)
                }
                18 if random.below(3) == 0 => world.destroy(at, id).map(drop),
                _ => world.about(at, command::LEAVE_MCAST, random.below(4) as u32, 0).map(drop),
            };
            for event in world.events(random.of(&files)) {
                reached[event as usize] += 1;
            }
            if step % 50 == 0 {
                world.pass(random.of(&[S, RESPONSE_NS, 20 * RESPONSE_NS]));
            }
            if step % 1000 == 999 {
                world.close(files.remove(0));
                files.push(world.cm.open(9));
            }
            check(&world);
        }
        files.into_iter().for_each(|file| world.close(file));
        check_empty(&world);
    }
    // The walk has been to most places, or it proves nothing.
    for event in [0, 1, 2, 4, 5, 7, 8, 9, 10, 12, 15] {
        assert!(reached[event] > 0, "no event {event} in {reached:?}");
    }
}
