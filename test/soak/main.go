package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// checkEvery is the number of steps between two checkpoints.
const checkEvery = 5

type options struct {
	name, image, replay, logs string
	seed                      uint64
	length                    time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.name, "name", "soak", "name of the lab")
	flag.StringVar(&o.image, "image", "", "OCI archive of the operator's image")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed for the random steps")
	flag.DurationVar(&o.length, "for", 10*time.Minute, "duration of the random walk")
	flag.StringVar(&o.replay, "replay", "", "file with steps to run instead of random ones")
	flag.StringVar(&o.logs, "logs", "", "directory for the cluster's logs if a check fails")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// run creates the cluster, runs the steps, and removes the cluster.
func run(ctx context.Context, o options) (err error) {
	if o.image == "" {
		return errors.New("--image names the archive of the operator's image: run `make soak`")
	}
	begin := time.Now()
	log := func(format string, args ...any) {
		fmt.Printf("%6.0fs %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	next, err := source(o)
	if err != nil {
		return err
	}
	w, err := setUp(ctx, o.name, o.image, log)
	if w != nil {
		defer func() {
			logs := o.logs
			if err == nil {
				logs = ""
			}
			err = errors.Join(err, w.down(logs))
		}()
	}
	if err != nil {
		return err
	}
	if err := w.WaitReady(ctx, clusterName); err != nil {
		return err
	}
	log("the cluster is up")
	walk := &walk{world: w, model: NewModel()}
	if err := walk.on(ctx, next); err != nil {
		return o.report(walk, err)
	}
	log("%d steps, and all is as it must be", len(walk.done))
	return nil
}

// source returns a function that returns the next step; false ends the walk.
func source(o options) (func(*Model) (Step, bool), error) {
	if o.replay == "" {
		fmt.Printf("seed %d for %s\n", o.seed, o.length)
		r := rand.New(rand.NewPCG(o.seed, o.seed))
		count := 0
		var end time.Time
		return func(m *Model) (Step, bool) {
			if count++; count == 1 {
				end = time.Now().Add(o.length)
			}
			if count%checkEvery == 0 {
				return Step{Op: opCheck}, true
			}
			return m.Next(r), time.Now().Before(end)
		}, nil
	}
	text, err := os.ReadFile(o.replay)
	if err != nil {
		return nil, err
	}
	steps, err := ParseAll(string(text))
	if err != nil {
		return nil, err
	}
	return func(*Model) (Step, bool) {
		if len(steps) == 0 {
			return Step{}, false
		}
		s := steps[0]
		steps = steps[1:]
		return s, true
	}, nil
}

// walk is a walk in progress.
type walk struct {
	*world
	model *Model
	done  []Step
}

// on runs one step after another, and ends with a check of every volume.
func (w *walk) on(ctx context.Context, next func(*Model) (Step, bool)) error {
	for {
		s, more := next(w.model)
		if !more {
			return w.last(ctx)
		}
		if problem := w.model.Possible(s); problem != "" {
			w.log("left out: %s: %s", s, problem)
			continue
		}
		if err := w.step(ctx, s); err != nil {
			return err
		}
	}
}

// last starts the Pods of all volumes, so that all data is read.
func (w *walk) last(ctx context.Context) error {
	steps := []Step{{Op: opCheck}}
	if w.model.Failed {
		steps = append(steps, Step{Op: opHealDevice, On: mirrorClass}, Step{Op: opCheck})
	}
	for _, name := range sorted(w.model.Volumes) {
		if !w.model.Volumes[name].Running {
			steps = append(steps, Step{Op: opStart, On: name})
		}
	}
	for _, s := range append(steps, Step{Op: opCheck}) {
		if err := w.step(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// step runs a step with its fault at the same time.
func (w *walk) step(ctx context.Context, s Step) error {
	w.log("%s", s)
	w.done = append(w.done, s)
	if s.Op == opCheck {
		return w.check(ctx, w.model)
	}
	fault := make(chan error, 1)
	go func() { fault <- w.fault(ctx, s.During) }()
	sum, err := w.act(ctx, w.model, s)
	if failed := <-fault; failed != nil {
		return fmt.Errorf("%s: the fault could not be made: %w", s, failed)
	}
	if err != nil {
		return &Violation{Names: []string{s.On, s.From}, Text: fmt.Sprintf("%s: %v", s, err)}
	}
	w.model.Done(s, sum)
	return nil
}

// report adds the information for a replay of a failure.
func (o options) report(w *walk, err error) error {
	var violation *Violation
	if !errors.As(err, &violation) {
		return err
	}
	text := ""
	for _, s := range Shorten(w.done, violation.Names...) {
		text += s.String() + "\n"
	}
	return fmt.Errorf("%w\nseed %d, step %d. The steps that have to do with it, for --replay:\n%s", err, o.seed,
		len(w.done), text)
}
