// Command soak runs random operations of users and administrators on a cluster with real LVM. Meanwhile agents and the
// operator are killed, the API server is suspended, the node loses power, disks are pulled or return errors, pools fill
// up, and the clock is moved. The command knows the expected state, and compares it at checkpoints: every flushed byte,
// every logical volume and its object, the capacity, and the faults in the status.
//
//	soak --image ARCHIVE --seed 1 --for 10m
//	soak --image ARCHIVE --replay FILE
//
// The seed determines the steps. After a failure the command prints the seed and the relevant steps, in the format of
// --replay.
package main
