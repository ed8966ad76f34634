// Whether the sources fit the SDK of each older console that the second build is for: node --import tsx scripts/sdks.ts. TypeScript checks the
// files that import the SDK, and nothing else: the rest is checked with the newest one.
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { legacySDKs } from '../legacy.ts';

const SDK = '@openshift-console/dynamic-plugin-sdk';
const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((f) => /\.tsx?$/.test(f) && !/\.test\./.test(f)).map((f) => join('src', f));
const users = [...sources, 'extensions.ts'].filter((f) => readFileSync(f, 'utf8').includes(`from '${SDK}'`)).map((f) => resolve(f));
const parsed = ts.parseJsonConfigFileContent(ts.readConfigFile('tsconfig.json', ts.sys.readFile).config, ts.sys, '.');

/** Files are read and parsed once for all SDKs. */
const files = new Map<string, ts.SourceFile | undefined>();

function faultsWith(sdk: string): readonly ts.Diagnostic[] {
  const options: ts.CompilerOptions = { ...parsed.options, moduleSuffixes: ['.legacy', ''], paths: { [SDK]: [resolve('node_modules', sdk)] } };
  const host = ts.createCompilerHost(options);
  const read = host.getSourceFile.bind(host);
  host.getSourceFile = (name, ...rest) => {
    if (!files.has(name)) files.set(name, read(name, ...rest));
    return files.get(name);
  };
  const program = ts.createProgram(users, options, host);
  // Without the SDK, each import of it would be an error in every file; a folder that is there and has no types would hide all errors.
  if (!program.getSourceFiles().some((f) => f.fileName.includes(`/${sdk}/lib/`))) throw new Error(`${sdk} has no types: run npm ci`);
  return users.flatMap((name) => program.getSemanticDiagnostics(program.getSourceFile(name)));
}

if (users.length < 5) throw new Error(`only ${users.length} files import ${SDK}`);
for (const sdk of legacySDKs) {
  const faults = faultsWith(sdk);
  console.log(`${sdk}: ${users.length} files, ${faults.length} errors`);
  if (!faults.length) continue;
  console.error(ts.formatDiagnostics(faults, { getCanonicalFileName: (f) => f, getCurrentDirectory: () => process.cwd(), getNewLine: () => '\n' }));
  process.exitCode = 1;
}
