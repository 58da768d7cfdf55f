package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// redisTime bounds one Redis operation: Redis is local, but the machine may be busy, and a browser waits.
	redisTime = 3 * time.Second
	// bindingTTL outlives any session; it frees sessions that a dead gateway left bound.
	bindingTTL = 24 * time.Hour
	bindingKey = "gpuaas:terminal:session:"
)

// quiet discards go-redis's own log lines: its errors are returned to us and logged once.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// silence sets go-redis's process-wide logger, once.
var silence = sync.OnceFunc(func() { redis.SetLogger(quiet{}) })

// bindings binds terminal sessions to this gateway in Redis.
type bindings struct {
	client *redis.Client
	owner  string
}

func newBindings(o Options, owner string) *bindings {
	silence()
	return &bindings{owner: owner, client: redis.NewClient(&redis.Options{
		Addr: o.Redis, Username: o.RedisUser, Password: o.RedisPassword.Reveal(), MaxRetries: -1, DialerRetries: 1,
		DialTimeout: redisTime, ReadTimeout: redisTime, WriteTimeout: redisTime, ContextTimeoutEnabled: true, PoolSize: 4,
		DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
}

// bind binds the session to this gateway; it returns false if another attach holds it.
func (b *bindings) bind(ctx context.Context, sessionID string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*redisTime)
	defer cancel()
	err := b.client.SetArgs(ctx, bindingKey+sessionID, b.owner, redis.SetArgs{Mode: "NX", TTL: bindingTTL}).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("bind session %s: %w", sessionID, err)
	}
	return true, nil
}

// release ends a binding of this gateway.
func (b *bindings) release(ctx context.Context, sessionID string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*redisTime)
	defer cancel()
	if err := b.client.Del(ctx, bindingKey+sessionID).Err(); err != nil {
		return fmt.Errorf("release session %s: %w", sessionID, err)
	}
	return nil
}

func (b *bindings) close() error { return b.client.Close() }
