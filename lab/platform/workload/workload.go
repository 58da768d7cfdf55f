// Package workload is the lab's sample workload: it replaces a tenant's notebook, with only the paths that a walk
// needs. It is the far end of the app's route: it serves files, lists the names of the headers that it received,
// and accepts a WebSocket. `gpuaas-platform workload` runs it on a lab node; the platform itself does not use it.
package workload

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/coder/websocket"
)

// Paths in addition to those of the files.
const (
	PathHeaders   = "/headers" // {"header_names": ["Host", ...]}, sorted
	PathWebSocket = "/ws"      // sends back each message
)

// maxMessage bounds one message of a WebSocket.
const maxMessage = 64 << 10

// Handler serves the files of a folder, the names of a request's headers, and a WebSocket that echoes.
func Handler(files string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServer(http.Dir(files)))
	mux.HandleFunc("GET "+PathHeaders, headers)
	mux.HandleFunc("GET "+PathWebSocket, echo)
	return mux
}

// headers lists only names, since a value may be a user's cookie.
func headers(w http.ResponseWriter, r *http.Request) {
	names := append(slices.Collect(maps.Keys(r.Header)), "Host") // net/http keeps Host apart
	slices.Sort(names)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string][]string{"header_names": names}) // who went away misses it
}

func echo(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r,
		&websocket.AcceptOptions{InsecureSkipVerify: true}) // any origin: there is nothing to protect
	if err != nil {
		return // Accept has answered
	}
	defer c.CloseNow()
	c.SetReadLimit(maxMessage)
	for {
		kind, data, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, data) != nil {
			return
		}
	}
}
