package limit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

const (
	// maxKnown is the maximum number of peers and credentials that are remembered as authorized. Only the API server's
	// consent adds one, so others cannot fill it.
	maxKnown = 1024
	// knownFor is how long one is remembered after its last authorization. A token of a Pod is replaced within an hour;
	// the peer is known then, and the new token becomes known with the first request.
	knownFor = time.Hour
)

// ReviewOptions configure Reviews.
type ReviewOptions struct {
	// Strangers is the rate of all requests together that no one was authorized for before, Stranger that of one peer.
	Strangers, Stranger Rate
	// Known is the rate of a peer or a credential that was authorized. There is no rate of all of them together.
	Known Rate
	// Wait is how long a request waits before it is refused.
	Wait time.Duration
}

const (
	// maxReviews is the maximum number of reviews at the same time for all strangers, and reviewsEach that for one peer
	// or credential. knownReviews is for all that are known: it only bounds memory.
	maxReviews   = 8
	reviewsEach  = 4
	knownReviews = maxKnown
)

// Reviews limit the requests that the API server must authenticate or authorize (TokenReview, SubjectAccessReview).
// Strangers share a small rate. A peer that was authorized, and a credential that was, have rates of their own, so that
// a flood of strangers cannot keep them out. They are safe for concurrent use.
type Reviews struct {
	wait             time.Duration
	all              *rate.Limiter
	strangers, known lane
	// authorized has the time until which a peer or credential is known.
	authorized *lru.Cache
}

// lane has the limits for each key.
type lane struct {
	rates  *Rates
	shares *Shares
}

// NewReviews returns Reviews.
func NewReviews(o ReviewOptions) *Reviews {
	return &Reviews{
		wait: o.Wait, all: o.Strangers.limiter(),
		strangers:  lane{rates: NewRates(o.Stranger, maxPeers), shares: NewShares(maxReviews, reviewsEach)},
		known:      lane{rates: NewRates(o.Known, maxKnown), shares: NewShares(knownReviews, reviewsEach)},
		authorized: lru.New(maxKnown),
	}
}

// Credential is a hash of what a client authenticates with.
type Credential [sha256.Size]byte

// Hash returns the Credential for a token or certificate.
func Hash(secret []byte) Credential { return sha256.Sum256(secret) }

// Begin must be called before the API server is asked about a request of a peer. The caller calls end when it was, with
// the result. The error wraps ErrTooMany: then it must not be asked.
func (r *Reviews) Begin(ctx context.Context, peer string, with Credential) (end func(authorized bool), err error) {
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	leave, err := r.admit(ctx, peer, with)
	if err != nil {
		return nil, fmt.Errorf("cannot authorize the client now: %w: try again later", err)
	}
	return func(authorized bool) {
		leave()
		if authorized {
			until := time.Now().Add(knownFor)
			r.authorized.Add(peer, until)
			r.authorized.Add(with, until)
		}
	}, nil
}

func (r *Reviews) admit(ctx context.Context, peer string, with Credential) (leave func(), err error) {
	switch {
	case r.isKnown(with):
		return r.known.enter(ctx, string(with[:]), nil)
	case r.isKnown(peer):
		return r.known.enter(ctx, peer, nil)
	}
	leave, err = r.strangers.enter(ctx, peer, r.all)
	if err != nil {
		return nil, fmt.Errorf("no request of %s was authorized yet: %w", peer, err)
	}
	return leave, nil
}

// enter waits for the rate of a key and, unless it is nil, for the one of all. It takes a slot only then, so that those
// who wait have none.
func (l lane) enter(ctx context.Context, key string, all *rate.Limiter) (leave func(), err error) {
	if err := l.rates.Wait(ctx, key); err != nil {
		return nil, err
	}
	if all != nil {
		if err := wait(ctx, all); err != nil {
			return nil, err
		}
	}
	return l.shares.Wait(ctx, key)
}

// isKnown reports whether a peer or credential was authorized.
func (r *Reviews) isKnown(key any) bool {
	until, ok := r.authorized.Get(key)
	return ok && time.Now().Before(until.(time.Time))
}
