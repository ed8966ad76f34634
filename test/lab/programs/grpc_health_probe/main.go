// Command grpc_health_probe queries the health of a gRPC server on this machine (grpc.health.v1). It has the name and
// the option that Pods of a catalog use.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// limit is shorter than the timeout of the probes, so that the reason is visible.
const limit = 4 * time.Second

func main() {
	address := flag.String("addr", "", "HOST:PORT of the server")
	flag.Parse()
	if err := probe(*address); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", *address, err)
		os.Exit(1)
	}
}

func probe(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	response, err := grpc_health_v1.NewHealthClient(connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if response.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("it is %s", response.GetStatus())
	}
	return nil
}
