/**
 * Compares the public declarations in dist/ with the reports in .config/api/, one per entry of "exports", so that a
 * change of the public API shows in review. `--update` rewrites the reports.
 */
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

// One of the tools that weigh much: .config/install.js installs it.
const { Extractor, ExtractorConfig } = createRequire(new URL('../test/slow/package.json', import.meta.url))(
  '@microsoft/api-extractor'
)

const rootDir = fileURLToPath(new URL('..', import.meta.url))
const reportFolder = join(rootDir, '.config/api')
const reportTempFolder = join(rootDir, '.cache/api')
const update = process.argv.includes('--update')

const { name, exports } = JSON.parse(readFileSync(join(rootDir, 'package.json'), 'utf8'))
mkdirSync(reportFolder, { recursive: true })
rmSync(reportTempFolder, { recursive: true, force: true })
mkdirSync(reportTempFolder, { recursive: true })

/** `.` becomes `index`, `./stores/sqlite` becomes `stores-sqlite`. */
const reportName = (entry) => (entry === '.' ? 'index' : entry.slice(2).replaceAll('/', '-'))

function extract(entry, types) {
  const config = ExtractorConfig.prepare({
    configObjectFullPath: join(rootDir, '.config/api.js'),
    packageJsonFullPath: join(rootDir, 'package.json'),
    configObject: {
      projectFolder: rootDir,
      mainEntryPointFilePath: join(rootDir, types),
      newlineKind: 'lf',
      compiler: { tsconfigFilePath: join(rootDir, 'tsconfig.json') },
      apiReport: { enabled: true, reportFileName: reportName(entry), reportFolder, reportTempFolder },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: {
        compilerMessageReporting: { default: { logLevel: 'error' } },
        // All exports are public, so that release tags are not needed.
        extractorMessageReporting: {
          default: { logLevel: 'warning', addToApiReportFile: true },
          'ae-missing-release-tag': { logLevel: 'none' },
          // The report marks such names anyway. Line numbers in it would change with every edit of a comment.
          'ae-undocumented': { logLevel: 'none' }
        },
        // ESLint and reviewers check comments. TSDoc would refuse much valid JSDoc.
        tsdocMessageReporting: { default: { logLevel: 'none' } }
      }
    }
  })
  // Not a local build: api-extractor then only compares. It is we who say when to write.
  return Extractor.invoke(config, { localBuild: update, messageCallback: (message) => onMessage(entry, message) })
}

/** One line per finding, without the preamble about versions that the tool prints for each entry. */
function onMessage(entry, message) {
  message.handled = true
  if (message.logLevel === 'error' || (message.logLevel === 'warning' && !message.messageId.startsWith('console-'))) {
    console.error(`${name} ${entry}: ${message.formatMessageWithLocation(rootDir)}`)
  }
}

let failed = false
for (const [entry, target] of Object.entries(exports)) {
  if (typeof target === 'string') continue
  if (!existsSync(join(rootDir, target.types))) {
    failed = true
    console.error(`package.json names the entry ${entry}, but the build makes no ${target.types}`)
    continue
  }
  const result = extract(entry, target.types)
  const report = `.config/api/${reportName(entry)}.api.md`
  if (result.errorCount > 0) {
    failed = true
  } else if (result.apiReportChanged && !update) {
    failed = true
    console.error(`${report} is not what the sources say now; that is .cache/api/${reportName(entry)}.api.md.`)
    console.error('If the change is meant: npm run api -- --update, and commit it.')
  } else {
    console.log(`${report}${result.apiReportChanged ? ' written' : ' agrees'}`)
  }
}
process.exitCode = failed ? 1 : 0
