package setup

import "github.com/lvm-storage/lvm-operator/cli/clitest"

// plugin has the commands of this package only.
var plugin = clitest.Plugin(Commands)
