// Package rescue copies a volume that can be read only in part, and records what was lost.
//
// The copy proceeds like GNU ddrescue's: large blocks first, then smaller and smaller reads of what failed, so that
// most of the data is safe before a failing disk is stressed. The map (Map) has the state of each range; the planner
// (Planner) decides the next read from it, without doing any I/O; Run reads, writes and saves the map. The package
// files finds the files that have lost content.
//
// GNU ddrescue itself cannot replace the planner: it waits without a limit for a read that hangs, instead of abandoning
// the read and saving the rest, and its map calls a range saved whether or not the target could be synced.
package rescue
