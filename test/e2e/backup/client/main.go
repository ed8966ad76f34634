// Program client is backup software for the end-to-end tests. It reads with the library of external-snapshot-metadata
// which blocks of a VolumeSnapshot are allocated or have changed, and copies them from a device to a file. It runs in a
// Pod, with the permissions of its ServiceAccount.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kubernetes-csi/external-snapshot-metadata/pkg/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"
)

// Summary is what the program prints as JSON.
type Summary struct {
	// Capacity is the size of the volume in bytes, and Copied that of the blocks that were copied.
	Capacity, Copied int64
	// Ranges is the number of ranges of blocks.
	Ranges int
	// Resumed are the offsets at which calls were repeated.
	Resumed []int64
	// Failures are the errors after which they were repeated.
	Failures []string
}

// options are the flags.
type options struct {
	namespace, snapshot, base, account string
	device, file, began                string
	maxResults                         int
	retries                            int
}

func main() {
	var o options
	flag.StringVar(&o.namespace, "namespace", "default", "namespace of the VolumeSnapshots and the ServiceAccount")
	flag.StringVar(&o.snapshot, "snapshot", "", "VolumeSnapshot to back up")
	flag.StringVar(&o.base, "base", "", "VolumeSnapshot of the backup in the file; empty for a full backup")
	flag.StringVar(&o.account, "account", "", "ServiceAccount whose token is sent")
	flag.StringVar(&o.device, "device", "", "device with the content of the snapshot")
	flag.StringVar(&o.file, "file", "", "file with the backup")
	flag.StringVar(&o.began, "began", "", "file to create when the first block was copied; empty for none")
	flag.IntVar(&o.maxResults, "max-results", 0, "maximum number of ranges in a message; 0 for the server's")
	flag.IntVar(&o.retries, "retries", 0, "number of calls that may fail with Unavailable; the next one resumes")
	scatter := flag.String("scatter", "", "device on which to write into every second step, instead of a backup")
	step := flag.Int64("step", 0, "step of -scatter in bytes")
	flag.Parse()
	if err := run(context.Background(), o, *scatter, *step); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, scatter string, step int64) error {
	if scatter != "" {
		return scatterBlocks(scatter, step)
	}
	b, err := openBackup(o)
	if err != nil {
		return err
	}
	if err := errors.Join(b.run(ctx), b.close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(b.Summary)
}

// backup copies blocks. It is the IteratorEmitter of the library.
type backup struct {
	options
	Summary
	from, to *os.File
	// next is the offset behind the last range that was copied.
	next int64
}

func openBackup(o options) (*backup, error) {
	from, err := os.Open(o.device)
	if err != nil {
		return nil, err
	}
	to, err := os.OpenFile(o.file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Join(err, from.Close())
	}
	return &backup{options: o, from: from, to: to}, nil
}

func (b *backup) close() error { return errors.Join(b.from.Close(), b.to.Sync(), b.to.Close()) }

// run reads all blocks. After a call that can be repeated, it resumes behind the last range.
func (b *backup) run(ctx context.Context) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	clients, err := iterator.BuildClients(config)
	if err != nil {
		return err
	}
	for {
		err := iterator.GetSnapshotMetadata(ctx, iterator.Args{Clients: clients, Emitter: b, Namespace: b.namespace,
			SnapshotName: b.snapshot, PrevSnapshotName: b.base, StartingOffset: b.next,
			MaxResults: int32(b.maxResults), SANamespace: b.namespace, SAName: b.account})
		if err == nil {
			return nil
		}
		// The library wraps the status of the call.
		var failed interface{ GRPCStatus() *status.Status }
		if !errors.As(err, &failed) || failed.GRPCStatus().Code() != codes.Unavailable ||
			len(b.Failures) >= b.retries {
			return err
		}
		b.Failures = append(b.Failures, err.Error())
		b.Resumed = append(b.Resumed, b.next)
		time.Sleep(time.Second)
	}
}

// SnapshotMetadataIteratorRecord copies the ranges of a message.
func (b *backup) SnapshotMetadataIteratorRecord(_ int, m iterator.IteratorMetadata) error {
	b.Capacity = m.VolumeCapacityBytes
	for _, r := range m.BlockMetadata {
		if r.GetByteOffset() < b.next {
			return fmt.Errorf("range at %d, after one that ended at %d", r.GetByteOffset(), b.next)
		}
		if _, err := b.from.Seek(r.GetByteOffset(), io.SeekStart); err != nil {
			return err
		}
		if _, err := b.to.Seek(r.GetByteOffset(), io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(b.to, b.from, r.GetSizeBytes()); err != nil {
			return err
		}
		b.next = r.GetByteOffset() + r.GetSizeBytes()
		b.Copied += r.GetSizeBytes()
		b.Ranges++
	}
	if b.began == "" || b.Ranges == 0 {
		return nil
	}
	name := b.began
	b.began = ""
	return os.WriteFile(name, nil, 0o600)
}

// SnapshotMetadataIteratorDone gives the file the size of the volume.
func (b *backup) SnapshotMetadataIteratorDone(int) error { return b.to.Truncate(b.Capacity) }

// scatterBlocks writes 4 KiB into every second step of a device, with content that depends on the place.
func scatterBlocks(device string, step int64) error {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	block := make([]byte, 4096)
	for offset := int64(0); offset+step <= size; offset += 2 * step {
		for i := range block {
			block[i] = byte(offset/step) + byte(i)
		}
		if _, err := f.WriteAt(block, offset); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(f.Sync(), f.Close())
}
