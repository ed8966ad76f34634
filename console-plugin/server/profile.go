package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/lvm-storage/lvm-operator/internal/tlsprofile"
)

// The profile is asked for, and not watched: a watch costs more memory than all else here.
const (
	profileEvery   = time.Minute
	profileTimeout = 10 * time.Second
	profilePath    = "/apis/config.openshift.io/v1/apiservers/cluster"
	accountFolder  = "/var/run/secrets/kubernetes.io/serviceaccount"
	// maxProfile is more than the object ever has, in bytes.
	maxProfile = 1 << 20
)

// errNoProfile: the cluster does not say how TLS is to be served.
var errNoProfile = errors.New("the cluster has no APIServer object of config.openshift.io")

// follow tells the servers the cluster's profile once a minute. What was read last holds while it cannot be read.
func follow(ctx context.Context, profile *tlsprofile.Follower, log *slog.Logger) {
	api, err := inCluster()
	if err != nil {
		log.Info("The TLS profile of a cluster is not followed", "reason", err)
		return
	}
	ticker := time.NewTicker(profileEvery)
	defer ticker.Stop()
	told := ""
	for {
		err := api.tell(ctx, profile)
		if errors.Is(err, errNoProfile) {
			log.Info("The TLS profile of the cluster is not followed", "reason", err)
			return
		}
		if text := fmt.Sprint(err); err != nil && text != told && ctx.Err() == nil {
			log.Error("The TLS profile of the cluster cannot be followed: the last one holds", "error", err)
			told = text
		}
		if err == nil {
			told = ""
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// apiServer is the API server as a Pod reaches it.
type apiServer struct {
	url, tokenFile string
	client         *http.Client
}

func inCluster() (apiServer, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" {
		return apiServer{}, errors.New("this is no Pod: KUBERNETES_SERVICE_HOST is not set")
	}
	return newAPIServer("https://"+net.JoinHostPort(host, port), accountFolder)
}

func newAPIServer(url, folder string) (apiServer, error) {
	ca, err := os.ReadFile(folder + "/ca.crt")
	if err != nil {
		return apiServer{}, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return apiServer{}, fmt.Errorf("%s/ca.crt has no certificate", folder)
	}
	return apiServer{url: url, tokenFile: folder + "/token", client: &http.Client{
		Timeout:   profileTimeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, IdleConnTimeout: profileEvery / 2},
	}}, nil
}

// tell reads the profile and sets it. The token is read each time: the kubelet renews it.
func (a apiServer) tell(ctx context.Context, profile *tlsprofile.Follower) error {
	token, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+profilePath, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return errNoProfile
	default:
		return fmt.Errorf("read apiservers.config.openshift.io cluster: the API server answers %s", response.Status)
	}
	var object struct {
		Spec struct {
			TLSSecurityProfile *configv1.TLSSecurityProfile `json:"tlsSecurityProfile"`
		} `json:"spec"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxProfile)).Decode(&object); err != nil {
		return fmt.Errorf("read apiservers.config.openshift.io cluster: %w", err)
	}
	return profile.Set(object.Spec.TLSSecurityProfile)
}
