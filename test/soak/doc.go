// Command soak walks at random through what users and administrators do on a cluster with real LVM, while agents and
// the operator are killed, the API server stands still, the node loses power, disks are pulled or give errors, pools
// fill, and the clock is moved. It knows what must exist, and compares at checkpoints: every byte that was flushed,
// every logical volume and its object, the capacity, and the faults that the status reports.
//
//	soak --image ARCHIVE --seed 1 --for 10m
//	soak --image ARCHIVE --replay FILE
//
// The seed decides the steps. A failure prints the seed and the steps that have to do with it, in the form that
// --replay reads.
package main
