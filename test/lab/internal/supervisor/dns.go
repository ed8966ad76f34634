package supervisor

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

const (
	dnsTTL     = 5
	dnsLimit   = 3 * time.Second
	dnsWorkers = 16
)

// errNoName means that a name does not exist.
var errNoName = errors.New("no such name")

// serveDNS resolves the names of Services, and that of the registry. It queries the API server each time: this is
// slower than a cluster's DNS, but needs nothing on the nodes. It serves only UDP, and has no names outside of the lab.
func (s *supervisor) serveDNS() error {
	conn, err := net.ListenPacket("udp4", spec.HostIP+":53")
	if err != nil {
		return err
	}
	for range dnsWorkers {
		go func() { // ends with the lab
			buf := make([]byte, 1500)
			for {
				n, from, err := conn.ReadFrom(buf)
				if err != nil {
					return
				}
				if answer, err := s.answerDNS(context.Background(), buf[:n]); err == nil {
					_, _ = conn.WriteTo(answer, from)
				}
			}
		}()
	}
	return nil
}

func (s *supervisor) answerDNS(ctx context.Context, query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	ips, err := s.lookup(ctx, strings.TrimSuffix(strings.ToLower(question.Name.String()), "."))
	reply := dnsmessage.Message{
		Header: dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true,
			RecursionDesired: header.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{question},
	}
	switch {
	case errors.Is(err, errNoName):
		reply.RCode = dnsmessage.RCodeNameError
	case err != nil:
		reply.RCode = dnsmessage.RCodeServerFailure
	case question.Type == dnsmessage.TypeA:
		for _, ip := range ips {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA,
					Class: dnsmessage.ClassINET, TTL: dnsTTL},
				Body: &dnsmessage.AResource{A: [4]byte(ip.To4())},
			})
		}
	}
	return reply.Pack()
}

// lookup resolves SERVICE.NAMESPACE.svc.cluster.local. For a headless Service it returns the addresses of its Pods.
func (s *supervisor) lookup(ctx context.Context, name string) ([]net.IP, error) {
	if name == spec.RegistryHost {
		return []net.IP{net.ParseIP(spec.HostIP)}, nil
	}
	service, ok := strings.CutSuffix(name, ".svc."+spec.ClusterDomain)
	parts := strings.Split(service, ".")
	if !ok || len(parts) != 2 || s.kube == nil {
		return nil, errNoName
	}
	ctx, cancel := context.WithTimeout(ctx, dnsLimit)
	defer cancel()
	return s.kube.serviceIPs(ctx, parts[1], parts[0])
}
