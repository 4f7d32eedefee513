-- Headers of messages and posts: a JSON object of texts, NULL if there are none.
ALTER TABLE parley_message ADD headers nvarchar(max) NULL;
ALTER TABLE parley_post ADD headers nvarchar(max) NULL;
ALTER TABLE parley_delayed ADD headers nvarchar(max) NULL;
ALTER TABLE parley_held ADD headers nvarchar(max) NULL;
ALTER TABLE parley_retained ADD headers nvarchar(max) NULL;
ALTER TABLE parley_processed ADD headers nvarchar(max) NULL;
ALTER TABLE parley_dead_letter ADD headers nvarchar(max) NULL;

-- No program of a version below oldest_program has anything in hand, or can get it. Headers are
-- written only when that is 7: programs of version 6 would lose them when they move a message.
-- A new store has no such programs: then it is 7 from the start.
ALTER TABLE parley_meta ADD oldest_program int NOT NULL DEFAULT 0;

-- Messages as a table, with headers. Programs of version 6 go on with parley_batch. Who may use
-- that may use this.
CREATE TYPE parley_payloads AS TABLE (
  n          int            NOT NULL PRIMARY KEY,
  stream_id  binary(16)     NOT NULL,
  seq        bigint         NOT NULL,
  message_id binary(16)     NOT NULL,
  kind       smallint       NOT NULL,
  type       nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  body       varbinary(max) NULL,
  headers    nvarchar(max)  NULL,
  queue_id   bigint         NOT NULL,
  group_id   binary(16)     NOT NULL,
  priority   smallint       NOT NULL
);
DECLARE @grants nvarchar(max) = N'';
SELECT @grants += N'GRANT EXECUTE ON TYPE::parley_payloads TO ' + QUOTENAME(USER_NAME(p.grantee_principal_id)) + N';'
  FROM sys.database_permissions p
 WHERE p.class = 6 AND p.major_id = TYPE_ID(N'parley_batch') AND p.type = 'EX' AND p.state IN ('G', 'W');
EXEC (@grants);

-- parley_post_message with headers, a JSON object of texts. What Go programs may not send as
-- headers throws 51006. 51007: programs that would lose headers may still be there.
EXEC (N'CREATE PROCEDURE parley_post_message_with_headers
  @queue nvarchar(256), @type nvarchar(256), @body varbinary(max), @key nvarchar(512), @headers nvarchar(max),
  @id char(36) = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  DECLARE @own int = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @message binary(16),
          @all nvarchar(max), @i int = 1, @size int = 0, @unit int;
  IF @headers IS NOT NULL
  BEGIN
    IF ISJSON(@headers) = 0 OR 64 < (SELECT count(*) FROM OPENJSON(@headers))
       OR LEFT(LTRIM(TRANSLATE(@headers, NCHAR(9) + NCHAR(10) + NCHAR(13), N''   '')), 1) <> N''{''
       OR EXISTS (SELECT 1 FROM OPENJSON(@headers) h
                   WHERE h.type <> 1 OR DATALENGTH(h.[key]) = 0
                      OR LEFT(h.[key], 7) COLLATE Latin1_General_100_BIN2 = N''parley-''
                      OR CHARINDEX(NCHAR(0), (h.[key] + h.value) COLLATE Latin1_General_100_BIN2) > 0)
      THROW 51006, N''parley: the headers are not valid'', 1;
    -- Bytes are counted as UTF-8 has them, unit by unit: half a character outside of the
    -- first plane has two of its four. SQL Server 2017 has no collation that does it.
    SELECT @all = STRING_AGG(CONVERT(nvarchar(max), h.[key]) + h.value, N'''') FROM OPENJSON(@headers) h;
    WHILE @i <= DATALENGTH(@all) / 2 AND @size <= 8192
    BEGIN
      SET @unit = UNICODE(SUBSTRING(@all COLLATE Latin1_General_100_BIN2, @i, 1));
      SELECT @i += 1, @size += CASE WHEN @unit < 128 THEN 1 WHEN @unit < 2048 OR @unit BETWEEN 55296 AND 57343 THEN 2 ELSE 3 END;
    END;
    IF @size > 8192
      THROW 51006, N''parley: the headers are not valid'', 1;
    IF 7 > (SELECT m.oldest_program FROM parley_meta m WITH (READCOMMITTEDLOCK, ROWLOCK))
      THROW 51007, N''parley: programs that would lose headers may still be there'', 1;
  END;
  BEGIN TRY
    IF @own = 1
      BEGIN TRANSACTION;
    EXEC parley_post_message @queue, @type, @body, @key, @id OUTPUT;
    SET @message = CONVERT(binary(16), REPLACE(@id, ''-'', ''''), 2);
    IF coalesce(@key, N'''') = N''''
      UPDATE parley_post SET headers = @headers WHERE post_id = @message;
    ELSE
      UPDATE parley_message SET headers = @headers WHERE message_id = @message AND kind = 4;
    IF @own = 1
      COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0
      ROLLBACK TRANSACTION;
    THROW;
  END CATCH;
END');

UPDATE parley_meta SET schema_version = 7;
