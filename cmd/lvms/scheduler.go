package main

import (
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lvm-storage/lvm-operator/internal/topolvm/extender"
)

func schedulerCommand() *cobra.Command {
	var path, certDir string
	command := &cobra.Command{
		Use:   "scheduler",
		Short: "Serve a scheduler extender that is compatible with topolvm-scheduler",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := extender.ReadConfig(path)
			if err != nil {
				return err
			}
			return extender.Run(ctrl.SetupSignalHandler(), extender.Options{Config: config, CertDir: certDir,
				Log: ctrl.Log.WithName("scheduler")})
		},
	}
	command.Flags().StringVar(&path, "config", "", "configuration file in the format of topolvm-scheduler: listen, "+
		"default-divisor and divisors; if empty, the extender listens on "+extender.DefaultAddress)
	command.Flags().StringVar(&certDir, "tls-cert-dir", "", "directory with tls.crt and tls.key, which are reloaded "+
		"when they change, to serve HTTPS; if empty, the extender serves HTTP, and only on a loopback address")
	return command
}
