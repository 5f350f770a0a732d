package remote

import (
	"sync"

	"github.com/ephor-dev/ephor/internal/apicall"
	"github.com/ephor-dev/ephor/internal/world"
)

// HTTP sends the HTTP requests of CEL policies over the network.
var HTTP = sync.OnceValue(func() world.HTTP {
	s, err := apicall.NewServices(apicall.ServiceOptions{Block: apicall.DefaultBlocklist})
	if err != nil {
		return nil // the options are constant, so there is no error
	}
	return s
})
