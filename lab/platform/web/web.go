// Package web is the common part of the platform's HTTP listeners: the correlation id of every request, the error
// envelope, the request log, bearer tokens. It has no notion of nodes or tasks.
package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// statusClosed is nginx's status for a request whose caller disconnected before the response.
const statusClosed = 499

// maxBody bounds a request's body, in bytes; the largest are heartbeats and batches of events.
const maxBody = 1 << 20

// Error is an unsuccessful response. Err is only logged.
type Error struct {
	Status     int
	Code       string
	Message    string
	RetryAfter time.Duration
	Err        error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Code + ": " + e.Message + ": " + e.Err.Error()
	}
	return e.Code + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error with a status, a code and a sentence.
func Errorf(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Handler handles a request, or returns an error; an error that is not an *Error becomes a 500 without its text.
type Handler func(w http.ResponseWriter, r *http.Request) error

// ServeHTTP implements http.Handler.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(w, r); err != nil {
		WriteError(w, r, err)
	}
}

// NotFound handles every path without a route.
func NotFound(http.ResponseWriter, *http.Request) error {
	return Errorf(http.StatusNotFound, "route_not_found", "this listener has no such route")
}

// WriteError responds with the error envelope.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	var e *Error
	switch {
	case errors.As(err, &e):
	case r.Context().Err() != nil: // the caller left, or we stop
		e = &Error{Status: statusClosed, Code: "request_cancelled", Message: "the request ended before its answer", Err: err}
	default:
		e = &Error{Status: http.StatusInternalServerError, Code: "internal_error", Message: "the platform could not do this",
			Err: err}
	}
	if t := of(r.Context()); t != nil {
		t.err = err
	}
	info := wire.ErrorInfo{Code: e.Code, Message: e.Message, CorrelationID: CorrelationID(r.Context())}
	if e.RetryAfter > 0 {
		s := int64((e.RetryAfter + time.Second - 1) / time.Second)
		info.RetryAfterS = &s
		w.Header().Set("Retry-After", strconv.FormatInt(s, 10))
	}
	WriteJSON(w, e.Status, wire.ErrorBody{Error: info})
}

// Answer responds with v; a Handler ends with it.
func Answer(w http.ResponseWriter, status int, v any) error {
	WriteJSON(w, status, v)
	return nil
}

// WriteJSON responds with v as JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // one of our own types that cannot be marshaled
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":"internal_error"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may have disconnected
}

// ReadJSON decodes the request's body into v; unknown fields are ignored, and without a body v is unchanged.
func ReadJSON(w http.ResponseWriter, r *http.Request, v any) error {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if errors.As(err, new(*http.MaxBytesError)) {
			return Errorf(http.StatusRequestEntityTooLarge, "body_too_large", "a body has at most %d bytes", maxBody)
		}
		return &Error{Status: http.StatusBadRequest, Code: "body_unreadable", Message: "the body could not be read", Err: err}
	}
	if len(b) == 0 {
		return nil
	}
	if err := bounded.Unmarshal(b, v, bounded.Answer()); err != nil {
		return &Error{Status: http.StatusBadRequest, Code: "body_invalid",
			Message: "the body is not the JSON that is wanted here", Err: err}
	}
	return nil
}

// Bearer returns the token of the Authorization header, or the zero Secret.
func Bearer(r *http.Request) diag.Secret {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return diag.Secret{}
	}
	return diag.NewSecret(strings.TrimSpace(token))
}

// trace is the per-request data that the handlers share.
type trace struct {
	correlationID string
	given         bool
	err           error // what WriteError answered
}

type traceKey struct{}

func of(ctx context.Context) *trace {
	t, _ := ctx.Value(traceKey{}).(*trace)
	return t
}

// CorrelationID returns the request's correlation id, "" outside of a request.
func CorrelationID(ctx context.Context) string {
	if t := of(ctx); t != nil {
		return t.correlationID
	}
	return ""
}

// GivenCorrelationID returns the correlation id that the caller sent, "" if it sent none.
func GivenCorrelationID(ctx context.Context) string {
	if t := of(ctx); t != nil && t.given {
		return t.correlationID
	}
	return ""
}

// NewCorrelationID returns a random correlation id.
func NewCorrelationID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return "req-" + hex.EncodeToString(b[:])
}

// ValidCorrelationID reports whether id may be a correlation id: 1 to 128 printable ASCII characters without spaces.
func ValidCorrelationID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	return !strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' })
}

// Front gives every request of a listener a correlation id, which the response echoes, and one log line without
// query or headers.
func Front(log *slog.Logger, listener string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		t := &trace{correlationID: r.Header.Get(wire.HeaderCorrelationID), given: true}
		if !ValidCorrelationID(t.correlationID) {
			t.correlationID, t.given = NewCorrelationID(), false
		}
		w.Header().Set(wire.HeaderCorrelationID, t.correlationID)
		sw := &statusWriter{ResponseWriter: w}
		next.ServeHTTP(sw, r.WithContext(context.WithValue(r.Context(), traceKey{}, t)))
		attrs := []slog.Attr{
			slog.String("listener", listener), slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.Int("status", sw.status()), slog.Int64("duration_ms", int64(diag.Measured(time.Since(began)))),
			slog.String("correlation_id", t.correlationID), slog.String("remote", Remote(r)),
		}
		level := slog.LevelInfo
		if t.err != nil {
			attrs = append(attrs, slog.String("error", t.err.Error()))
		}
		if sw.status() >= 500 {
			level = slog.LevelError
		}
		log.LogAttrs(r.Context(), level, "request", attrs...)
	})
}

// maxName bounds a name that a caller made up, if it is stored at all.
const maxName = 64

// Clipped makes a name from a caller safe to store: at most maxName plain characters.
func Clipped(s string) string {
	s = s[:min(len(s), maxName)]
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f && r != '"' && r != '\\' {
			return r
		}
		return '?'
	}, s)
}

// Remote returns the address that a request came from: the one that a proxy on this host names, otherwise the
// peer's.
func Remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		if said := net.ParseIP(r.Header.Get("X-Real-IP")); said != nil {
			return said.String()
		}
	}
	return host
}

// statusWriter remembers the status; for an upgraded connection it is 101.
type statusWriter struct {
	http.ResponseWriter
	code int
}

// Unwrap lets http.ResponseController and the WebSocket upgrade find the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) status() int {
	return cmp.Or(w.code, http.StatusOK)
}
