-- What the demonstration reads. The accounts that OpenBao makes are members of
-- orders_reader and own nothing, so that dropping them always succeeds.
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL);
INSERT INTO orders (item) VALUES ('rope'), ('lantern'), ('map');
CREATE ROLE orders_reader NOLOGIN;
GRANT SELECT ON orders TO orders_reader;
