"""What must be survived, and the test that shows it. tests/house/test_failpoints.py knows whether each exists.

 1  killed between an effect and its journal
      chaos/test_kill_loop::test_each_run_ends_once_and_each_effect_happens_once
 2  a zombie past its lease
      chaos/test_zombies::test_with_the_fence_the_journal_holds_what_every_step_saw
    … and what happens without the fence
      chaos/test_zombies::test_without_it_a_zombie_writes_a_second_truth
 3  a zombie before its call
      chaos/test_zombies::test_held_up_before_its_call_it_sends_nothing_any_more
 4  the broker forgets
      chaos/test_the_broker_is_lost::test_whatever_becomes_of_it_everything_runs_and_readyz_says_so
 5  the broker hangs, is full, is away
      chaos/test_the_broker_is_lost::test_whatever_becomes_of_it_everything_runs_and_readyz_says_so
 6  a message is given out again
      chaos/test_workers_are_lost::test_a_message_that_comes_again_runs_nothing_twice
 7  an event is delivered twice
      chaos/test_kill_loop::test_each_run_ends_once_and_each_effect_happens_once
 8  the database restarts in a transaction
      chaos/test_the_database_is_lost::test_a_server_that_crashes_takes_nothing_along
    … and the answer to a commit is lost
      spec/test_the_database_comes_back::test_a_refused_or_unheard_commit_is_made_good
 9  clocks differ
      chaos/test_two_desks_one_clock::test_each_slot_fires_once
      chaos/test_two_desks_one_clock::test_a_desk_whose_clock_is_late_keeps_the_times_of_a_request
10  two beats, and one that dies
      chaos/test_two_desks_one_clock::test_each_slot_fires_once
11  a yes in the instant of its expiry
      races/test_one_of_two_wins::test_one_of_two_wins_and_the_other_is_told
12  an event while its wait is registered
      races/test_one_of_two_wins::test_one_of_two_wins_and_the_other_is_told
13  the event comes after the timeout
      triggers/test_durable::test_a_timeout_is_remembered_although_the_event_comes_before_the_replay
14  other code under a waiting run
      spec/test_code_changes_under_a_waiting_run::test_it_stops_and_says_what_differs_where_it_does_not
15  a handler that is gone
      triggers/test_durable::test_a_handler_that_is_gone_leaves_its_run_queued_and_says_so
16  a handler that always fails
      triggers/test_durable::test_failures_are_retried_with_back_off_and_then_buried_with_the_traceback
17  a handler that kills its process
      chaos/test_workers_are_lost::test_the_third_lost_worker_ends_it_in_the_dead_letters
18  a result that is no JSON
      triggers/test_durable::test_a_result_that_is_no_json_fails_with_the_place_of_the_culprit
19  a result over its limit
      triggers/test_journal::test_the_wall_stands_at_eight_mebibytes_of_utf_8
20  SQLite is locked
      chaos/test_sqlite_is_never_locked::test_ingest_work_ticks_and_reading
21  the power fails under SQLite
      spec/test_a_delivery_becomes_one_exact_event::test_the_settings_that_keep_sqlite_patient
22  serialization failures and deadlocks
      spec/test_the_database_comes_back::test_a_refused_or_unheard_commit_is_made_good
23  times kept in the broker
      house/test_tasks::test_time_is_kept_in_rows_never_in_the_broker
24  very many timers at once
      triggers/test_waking::test_more_than_a_batch_wakes_in_one_round_and_few_bells_ring
25  a handler that hangs
      triggers/test_durable::test_a_hung_handler_is_counted_and_its_process_ended
26  a worker that lives and takes nothing
      project/test_trouble::test_workers_that_are_gone_are_told_by_what_waits
27  a cancel in the instant of completion
      races/test_one_of_two_wins::test_one_of_two_wins_and_the_other_is_told
28  woken before it sleeps
      chaos/test_kill_loop::test_each_run_ends_once_and_each_effect_happens_once
29  a database restored from its backup
      spec/test_a_restored_database_sends_nothing_twice::test_what_a_run_of_the_backup_asks_for_later_is_looked_for_first
30  a slot that is never freed
      races/test_limits_hold::test_a_slot_is_freed_with_the_last_word_of_its_run_whoever_speaks_it
    killed while what a failed run did is undone
      chaos/test_triage_survives_its_workers::test_killed_while_what_a_failed_run_did_is_undone
    killed between the requests of an agent, and in the middle of one
      chaos/test_an_agent_survives_its_workers::test_no_request_is_paid_for_twice_and_its_effect_happens_once
    a disk that is full
      chaos/test_the_database_is_lost::test_a_full_disk_refuses_at_the_door_and_loses_nothing
"""
