/**
 * Compares the public declarations of library and client in dist/ and src/client/dist/ with the reports in .config/api/,
 * one per entry of "exports", so that a change of the public API shows in review. `--update` rewrites the reports.
 * Fails on a public type or member without a comment.
 */
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

// A large tool, which `.config/install.js slow` installs.
const { Extractor, ExtractorConfig } = createRequire(new URL('../test/slow/package.json', import.meta.url))(
  '@microsoft/api-extractor'
)

const rootDir = fileURLToPath(new URL('..', import.meta.url))
const reportFolder = join(rootDir, '.config/api')
const reportTempFolder = join(rootDir, '.cache/api')
const update = process.argv.includes('--update')

mkdirSync(reportFolder, { recursive: true })
rmSync(reportTempFolder, { recursive: true, force: true })
mkdirSync(reportTempFolder, { recursive: true })

/** Folders of the packages, and the start of the names of their reports. */
const packages = [
  ['.', ''],
  ['src/client', 'client']
]

/** Returns the name of a report: `.` becomes `index` or `client`, `./stores/sqlite` becomes `stores-sqlite`. */
const toReportName = (prefix, entry) =>
  [prefix, ...entry.split('/').slice(1)].filter((part) => part !== '').join('-') || 'index'

function extract(folder, reportFileName, types) {
  const config = ExtractorConfig.prepare({
    configObjectFullPath: join(rootDir, '.config/api.js'),
    packageJsonFullPath: join(rootDir, folder, 'package.json'),
    configObject: {
      projectFolder: rootDir,
      mainEntryPointFilePath: join(rootDir, folder, types),
      newlineKind: 'lf',
      compiler: { tsconfigFilePath: join(rootDir, 'tsconfig.json') },
      apiReport: { enabled: true, reportFileName, reportFolder, reportTempFolder },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: {
        compilerMessageReporting: { default: { logLevel: 'error' } },
        // All exports are public, so that release tags are not needed.
        extractorMessageReporting: {
          default: { logLevel: 'warning', addToApiReportFile: true },
          'ae-missing-release-tag': { logLevel: 'none' },
          // The report marks undocumented names itself. Warnings have line numbers, which change with every comment.
          'ae-undocumented': { logLevel: 'none' }
        },
        // ESLint and reviewers check comments. TSDoc refuses much valid JSDoc.
        tsdocMessageReporting: { default: { logLevel: 'none' } }
      }
    }
  })
  // api-extractor writes reports only in a local build. Otherwise it compares them.
  return Extractor.invoke(config, {
    localBuild: update,
    messageCallback: (message) => onMessage(reportFileName, message)
  })
}

/** Prints one line per finding, without the tool's version messages for each entry. */
function onMessage(report, message) {
  message.handled = true
  if (message.logLevel === 'error' || (message.logLevel === 'warning' && !message.messageId.startsWith('console-'))) {
    console.error(`${report}: ${message.formatMessageWithLocation(rootDir)}`)
  }
}

/** Lists the names in a report that have no comment, such as `Session: readonly state: string`. */
function listUndocumented(report) {
  const lines = report.split('\n')
  let container = ''
  return lines.flatMap((line, index) => {
    const [, name] = /^(?:export |declare |abstract )*(?:interface|class|type|const|function) (\w+)/.exec(line) ?? []
    container = name ?? container
    if (lines[index - 1]?.trim() !== '// (undocumented)') return []
    return [name ?? `${container}: ${line.trim()}`]
  })
}

const entries = packages.flatMap(([folder, prefix]) => {
  const { exports } = JSON.parse(readFileSync(join(rootDir, folder, 'package.json'), 'utf8'))
  return Object.entries(exports).map(([entry, target]) => ({
    folder,
    entry,
    target,
    name: toReportName(prefix, entry)
  }))
})
let failed = false
for (const { folder, entry, target, name } of entries) {
  if (typeof target === 'string') continue
  if (!existsSync(join(rootDir, folder, target.types))) {
    failed = true
    console.error(`${folder}/package.json names the entry ${entry}, but the build does not create ${target.types}.`)
    continue
  }
  const result = extract(folder, name, target.types)
  const report = `.config/api/${name}.api.md`
  const undocumented = listUndocumented(readFileSync(join(reportTempFolder, `${name}.api.md`), 'utf8'))
  for (const member of undocumented) console.error(`${name}: write a comment for ${member}`)
  if (result.errorCount > 0 || undocumented.length > 0) {
    failed = true
  } else if (result.apiReportChanged && !update) {
    failed = true
    console.error(`${report} differs from the public API of the sources, which is in .cache/api/${name}.api.md.`)
    console.error('If the change is intended, run npm run api -- --update and commit the report.')
  } else {
    console.log(`${report}${result.apiReportChanged ? ' written' : ' is up to date'}`)
  }
}
process.exitCode = failed ? 1 : 0
