//! The simulated network: order, cuts, deaths, and what either end is told.

use std::{cell::RefCell, rc::Rc, time::Duration};

use bytes::Bytes;
use cairn_env::{Env, NetEvent, OutMessage};
use cairn_sim::{Host, SimEnv, World};

type Log = Rc<RefCell<Vec<String>>>;

/// Notes of everything that arrives what `note` makes of it.
fn listen_by<T: 'static>(host: &Host, note: fn(NetEvent) -> Option<T>) -> Rc<RefCell<Vec<T>>> {
    let log = Rc::<RefCell<Vec<T>>>::default();
    let into = log.clone();
    host.set_program(move |env| {
        let into = into.clone();
        async move {
            let mut events = vec![];
            loop {
                env.receive(&mut events).await;
                into.borrow_mut().extend(events.drain(..).filter_map(note));
            }
        }
    });
    log
}

/// Notes everything that arrives: "up 1", "down", "gone", or a message's text.
fn listen(host: &Host) -> Log {
    listen_by(host, |event| {
        Some(match event {
            NetEvent::Message(m) => String::from_utf8(m.body.to_vec()).unwrap(),
            NetEvent::PeerUp { incarnation, .. } => format!("up {}", incarnation.0),
            NetEvent::PeerDown { process_gone: true, .. } => "gone".into(),
            NetEvent::PeerDown { .. } => "down".into(),
        })
    })
}

fn send(env: &SimEnv, to: &Host, text: &str) {
    env.send(
        to.id(),
        OutMessage {
            body: Bytes::copy_from_slice(text.as_bytes()),
            payload: vec![Bytes::from(vec![1; 512]), Bytes::from(vec![2; 512])],
        },
    );
}

struct Two {
    world: World,
    a: Host,
    b: Host,
    at_a: Log,
    at_b: Log,
}

fn two(seed: u64) -> Two {
    let world = World::new(seed);
    let (a, b) = (world.add_host("a"), world.add_host("b"));
    let (at_a, at_b) = (listen(&a), listen(&b));
    world.run_for(Duration::from_millis(100));
    assert_eq!((&at_a.take()[..], &at_b.take()[..]), (&["up 1".into()][..], &["up 1".into()][..]));
    Two { world, a, b, at_a, at_b }
}

#[test]
fn messages_come_in_order() {
    let t = two(1);
    for n in 0..100 {
        send(&t.a.env(), &t.b, &n.to_string());
    }
    t.world.run_for(Duration::from_millis(100));
    let expected: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(t.at_b.take(), expected);
    send(&t.a.env(), &t.a, "self");
    t.world.run_for(Duration::from_millis(100));
    assert_eq!(t.at_a.take(), ["self"]);
}

#[test]
fn a_short_cut_delays_and_a_long_one_loses() {
    let t = two(2);
    t.world.cut(t.a.id(), t.b.id());
    send(&t.a.env(), &t.b, "late");
    t.world.run_for(Duration::from_millis(500));
    assert!(t.at_b.take().is_empty());
    t.world.heal(t.a.id(), t.b.id());
    t.world.run_for(Duration::from_millis(100));
    assert_eq!(t.at_b.take(), ["late"]);

    t.world.cut(t.a.id(), t.b.id());
    send(&t.a.env(), &t.b, "lost");
    t.world.run_for(Duration::from_secs(4));
    assert_eq!((&t.at_a.take()[..], &t.at_b.take()[..]), (&["down".into()][..], &["down".into()][..]));
    t.world.heal_all();
    t.world.run_for(Duration::from_millis(100));
    assert_eq!((&t.at_a.take()[..], &t.at_b.take()[..]), (&["up 1".into()][..], &["up 1".into()][..]));
}

/// After a heal one end may still hold a connection that the other gave up: it is told, and then they meet anew.
#[test]
fn ends_that_disagree_meet_again() {
    for seed in 0..50 {
        let t = two(seed);
        t.world.cut_one_way(t.a.id(), t.b.id());
        send(&t.a.env(), &t.b, "x");
        send(&t.b.env(), &t.a, "through");
        t.world.run_for(Duration::from_millis(800 + 40 * seed));
        assert_eq!(t.at_a.borrow()[0], "through");
        t.world.heal_all();
        t.world.run_for(Duration::from_millis(300));
        send(&t.a.env(), &t.b, "after");
        send(&t.b.env(), &t.a, "after");
        t.world.run_for(Duration::from_millis(100));
        for log in [&t.at_a, &t.at_b] {
            assert_eq!(log.borrow().last().unwrap(), "after", "seed {seed}: {log:?}");
            let downs = log.borrow().iter().filter(|l| *l == "down" || *l == "gone").count();
            let ups = log.borrow().iter().filter(|l| l.starts_with("up")).count();
            assert_eq!(ups, downs, "seed {seed}: {log:?}");
        }
    }
}

#[test]
fn deaths_are_told_as_far_as_the_kernel_knows() {
    let t = two(3);
    t.b.kill();
    t.world.run_for(Duration::from_millis(100));
    assert_eq!(t.at_a.take(), ["gone"]);
    t.b.restart();
    t.world.run_for(Duration::from_millis(100));
    assert_eq!(t.at_a.take(), ["up 2"]);
    t.b.crash(0);
    t.world.run_for(Duration::from_millis(100));
    assert!(t.at_a.take().is_empty(), "a host without power is silent");
    t.world.run_for(Duration::from_secs(4));
    assert_eq!(t.at_a.take(), ["down"]);
    t.b.restart();
    t.world.run_for(Duration::from_millis(100));
    assert_eq!(t.at_a.take(), ["up 3"]);
    // Back before the peer noticed: the new kernel resets the old connection.
    t.b.crash(0);
    t.b.restart();
    t.world.run_for(Duration::from_millis(200));
    assert_eq!(t.at_a.take(), ["gone", "up 4"]);
}

#[test]
fn a_slow_link_is_slow_one_way() {
    let t = two(4);
    t.world.slow_link(t.a.id(), t.b.id(), Duration::from_millis(300));
    send(&t.a.env(), &t.b, "slow");
    send(&t.b.env(), &t.a, "fast");
    t.world.run_for(Duration::from_millis(100));
    assert_eq!((t.at_a.take().len(), t.at_b.borrow().len()), (1, 0));
    t.world.run_for(Duration::from_millis(300));
    assert_eq!(t.at_b.take(), ["slow"]);
}

/// Of each message that arrives: its body, the bytes of its block data, and how many bits of those are not of a 7.
fn listen_to_blocks(host: &Host) -> Rc<RefCell<Vec<(u8, usize, u32)>>> {
    listen_by(host, |event| match event {
        NetEvent::Message(m) => {
            let bits = m.payload.iter().map(|byte| (byte ^ 7).count_ones()).sum();
            Some((m.body[0], m.payload.len(), bits))
        }
        _ => None,
    })
}

/// Goal: one bit of the block data of every third message that has any, one way only; all else is as it was sent.
#[test]
fn blocks_change_one_way_when_told_to() {
    let world = World::new(6);
    let (a, b) = (world.add_host("a"), world.add_host("b"));
    let (at_a, at_b) = (listen_to_blocks(&a), listen_to_blocks(&b));
    world.run_for(Duration::from_millis(100));
    let block = Bytes::from(vec![7u8; 4096]);
    let send = |from: &Host, to: &Host, number: u8, payload| {
        from.env().send(to.id(), OutMessage { body: vec![number].into(), payload });
    };
    world.change_blocks(a.id(), b.id(), 3);
    for number in 0..6 {
        for (from, to) in [(&a, &b), (&b, &a)] {
            send(from, to, number, vec![block.clone()]);
            send(from, to, number, Vec::new());
        }
    }
    world.change_blocks(a.id(), b.id(), 0);
    (6..12).for_each(|number| send(&a, &b, number, vec![block.clone()]));
    world.run_for(Duration::from_millis(100));
    let sent = |number: u8, bits| [(number, 4096, bits), (number, 0, 0)];
    let wanted = |third| (0..6).flat_map(move |number| sent(number, if number % 3 == 2 { third } else { 0 }));
    assert!(at_a.take().into_iter().eq(wanted(0)));
    assert!(at_b.take().into_iter().eq(wanted(1).chain((6..12).map(|number| (number, 4096, 0)))));
    assert!(block.iter().all(|byte| *byte == 7), "the sender's memory is as it was");
    assert_eq!(world.traffic().changed, 2);
}

#[test]
fn a_reset_connection_is_made_anew() {
    let t = two(5);
    send(&t.a.env(), &t.b, "lost");
    t.world.disconnect(t.a.id(), t.b.id());
    t.world.run_for(Duration::from_millis(200));
    assert_eq!(t.at_a.take(), ["down", "up 1"]);
    assert_eq!(t.at_b.take(), ["down", "up 1"]);
}

/// Two machines with one host id. Goal: a peer talks with the newer one only, and with the older one when that has gone.
#[test]
fn of_two_machines_with_one_id_the_newer_is_heard() {
    let t = two(9);
    let clone = t.world.add_clone("b-clone", &t.b);
    let at_clone = listen(&clone);
    assert_eq!((clone.spoken_id(), clone.env().host()), (t.b.id(), t.b.id()));
    t.world.run_for(Duration::from_secs(3));
    assert_eq!(t.at_a.take(), ["down", "up 2"]);
    assert_eq!((&t.at_b.take()[..], &at_clone.take()[..]), (&["gone".into()][..], &["up 1".into()][..]));
    send(&t.a.env(), &t.b, "to b");
    send(&t.b.env(), &t.a, "of the older");
    send(&clone.env(), &t.a, "of the newer");
    t.world.run_for(Duration::from_millis(100));
    assert_eq!((t.at_a.take(), at_clone.take()), (vec!["of the newer".to_owned()], vec!["to b".to_owned()]));
    // As many starts as the clone: the first that came stays.
    t.b.restart();
    t.world.run_for(Duration::from_secs(3));
    assert_eq!((t.at_a.take().len(), t.at_b.take().len()), (0, 0));
    clone.kill();
    t.world.run_for(Duration::from_secs(3));
    assert_eq!((t.at_a.take(), t.at_b.take()), (vec!["gone".to_owned(), "up 2".into()], vec!["up 1".to_owned()]));
}
