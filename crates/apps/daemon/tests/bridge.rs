//! The bridge from any thread to the shard: calls overlap, answers find their callers, an end is told.

use std::{cell::Cell, rc::Rc, sync::Arc};

use cairn_api::ApiResult;
use cairnd::bridge::bridge;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn calls_overlap_on_the_shard_and_answers_find_their_callers() {
    let (bridge, end) = bridge::<Cell<u32>>();
    let shard = std::thread::spawn(move || {
        runtime().block_on(end.serve(Rc::new(Cell::new(0))));
    });
    let bridge = Arc::new(bridge);
    runtime().block_on(async {
        let calls = (0..200u32).map(|number| {
            let bridge = bridge.clone();
            async move {
                bridge
                    .call(move |count: Rc<Cell<u32>>| async move {
                        tokio::task::yield_now().await;
                        count.set(count.get() + 1);
                        Ok(number)
                    })
                    .await
            }
        });
        let answers = futures::future::join_all(calls).await;
        assert_eq!(answers, (0..200).map(Ok).collect::<Vec<ApiResult<u32>>>());
        assert_eq!(bridge.call(|count| async move { Ok(count.get()) }).await, Ok(200));
        assert!(bridge.pulse().await);
    });
    drop(bridge);
    shard.join().unwrap();
}

#[test]
fn a_shard_that_is_gone_answers_unavailable() {
    let (bridge, end) = bridge::<()>();
    drop(end);
    let error = runtime().block_on(bridge.call(|_| async { Ok(()) })).unwrap_err();
    assert_eq!(error.kind, cairn_api::ApiErrorKind::Unavailable);
    assert!(!runtime().block_on(bridge.pulse()));
}
