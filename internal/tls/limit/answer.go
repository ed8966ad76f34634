package limit

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
)

// Answers returns a question for liveness.Ask to a TLS server of this process. Whatever the server says is an answer,
// also that it refuses the connection because it has too many, or because it has no certificate.
func Answers(address net.Addr) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		// The server's certificate is for the name of a Service.
		dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		connection, err := dialer.DialContext(ctx, address.Network(), address.String())
		switch {
		case err == nil:
			_ = connection.Close()
		case ctx.Err() != nil:
			return fmt.Errorf("no TLS handshake on %s: %w", address, ctx.Err())
		}
		return nil
	}
}
