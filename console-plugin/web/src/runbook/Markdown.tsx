// Markdown as elements of the page. No HTML is put together from text: what stands in a text cannot run.
import { Content, Stack, StackItem, Title } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { lexer, type Token, type Tokens } from 'marked';
import { Fragment, useMemo, type ReactNode } from 'react';
import { Link } from '../router';
import { CodeToCopy } from '../components/CodeToCopy';
import { destinationOf, slugOf } from '../model/runbook';

export function Markdown({ text }: { text: string }) {
  const tokens = useMemo(() => lexer(text), [text]);
  return (
    <Stack hasGutter>
      {tokens.filter((token) => token.type !== 'space').map((token, i) => (
        <StackItem key={i}><Block token={token} /></StackItem>
      ))}
    </Stack>
  );
}

/** A paragraph, a list, a table: what begins on a line of its own. */
function Block({ token }: { token: Token }) {
  switch (token.type) {
    case 'heading':
      return <Heading token={token as Tokens.Heading} />;
    case 'code':
      return <CodeToCopy text={(token as Tokens.Code).text} />;
    case 'list':
      return <Items token={token as Tokens.List} />;
    case 'table':
      return <Rows token={token as Tokens.Table} />;
    case 'paragraph':
      return <Content component="p">{inline(token.tokens)}</Content>;
    default:
      return <>{inline([token])}</>;
  }
}

function Heading({ token }: { token: Tokens.Heading }) {
  const level = `h${token.depth}` as 'h1';
  return <Title headingLevel={level} id={slugOf(token.text)}>{inline(token.tokens)}</Title>;
}

function Items({ token }: { token: Tokens.List }) {
  return (
    <Content component={token.ordered ? 'ol' : 'ul'}>
      {token.items.map((item, i) => (
        <Content key={i} component="li">{item.tokens.map((part, j) => <Block key={j} token={part} />)}</Content>
      ))}
    </Content>
  );
}

function Rows({ token }: { token: Tokens.Table }) {
  const label = token.header.map((cell) => cell.text).join(', ');
  return (
    <Table variant="compact" aria-label={label}>
      <Thead>
        <Tr>{token.header.map((cell, i) => <Th key={i}>{inline(cell.tokens)}</Th>)}</Tr>
      </Thead>
      <Tbody>
        {token.rows.map((row, i) => <Tr key={i}>{row.map((cell, j) => <Td key={j}>{inline(cell.tokens)}</Td>)}</Tr>)}
      </Tbody>
    </Table>
  );
}

const inline = (tokens: Token[] = []): ReactNode => tokens.map((token, i) => <Fragment key={i}>{span(token)}</Fragment>);

/** What stands within a line. HTML and pictures are shown as the text that they are. */
function span(token: Token): ReactNode {
  switch (token.type) {
    case 'space':
      return null;
    case 'strong':
      return <strong>{inline(token.tokens)}</strong>;
    case 'em':
      return <em>{inline(token.tokens)}</em>;
    case 'codespan':
      return <code>{(token as Tokens.Codespan).text}</code>;
    case 'br':
      return <br />;
    case 'link':
      return <Anchor token={token as Tokens.Link} />;
    case 'escape':
      return (token as Tokens.Escape).text;
    case 'text':
      return token.tokens ? inline(token.tokens) : (token as Tokens.Text).text;
    default:
      return token.raw;
  }
}

function Anchor({ token }: { token: Tokens.Link }) {
  const destination = destinationOf(token.href);
  const text = inline(token.tokens);
  if (!destination) return <>{text}</>;
  if (destination.to !== undefined) return <Link to={destination.to}>{text}</Link>;
  return <a href={destination.href} target="_blank" rel="noopener noreferrer">{text}</a>;
}
