package store

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
)

// TestOneCredentialBecomesAList: an application's one stored credential exists after the migration.
func TestOneCredentialBecomesAList(t *testing.T) {
	const before = 6 // schema versions
	path := filepath.Join(t.TempDir(), "platform.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range append(migrations[:before:before], fmt.Sprintf("PRAGMA user_version = %d", before),
		"INSERT INTO nodes (id, status, hostname, private_ip, provider_class, created_at) VALUES ('n1', 'ACTIVE', '', '', "+
			"'', 0)",
		`INSERT INTO allocations (id, node_id, state, os_user, workflow_id, app_kind, app_unit, app_port, app_product_url, updated_at, credential)
			VALUES ('reported', 'n1', 'active', 'u', '', '', '', 0, '', 0, '{"id":"hub-token","healthy":false,"count":3}'), ('never', 'n1', 'active', 'u', '', '', '', 0, '', 0, '')`) {
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if a, err := s.Allocation(t.Context(), "reported"); err != nil || len(a.Credentials) != 1 ||
		a.Credential().ID != "hub-token" || a.Credential().Count != 3 {
		t.Errorf("%+v, %v", a.Credentials, err)
	}
	if a, err := s.Allocation(t.Context(), "never"); err != nil || a.Credential() != nil {
		t.Errorf("%+v, %v", a.Credentials, err)
	}
}
