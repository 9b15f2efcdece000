/**
 * F18: a proxy that loses every second answer of 1,000 refreshes, and second holders of refresh tokens; and 200 kills
 * between the commit of a refresh and its answer, on SQLite, each followed by a repeat. A line each; one that misses its
 * goal sets the exit code.
 *
 * Some minutes: `npm run figures -- honest-clients`
 */
import { killBetweenCommitAndAnswer } from '../support/killed-refreshes.js'
import { runLostAnswers } from '../support/lost-answers.js'
import { reportFigure } from './report-figure.js'

const REFRESHES = 1_000
const PLANTS = 100
const KILLS = 200

const run = await runLostAnswers(
  { refreshes: REFRESHES, plants: PLANTS },
  { maxRequestsPerTimeSlot: Number.POSITIVE_INFINITY }
)
const isGood = run.refreshed === REFRESHES && run.loggedOut === 0 && run.noticed === run.planted
reportFigure(
  'F18',
  `${run.refreshed} of ${REFRESHES} refreshes with ${run.lost} answers lost: ${run.loggedOut} log-outs; ` +
    `${run.noticed} of ${run.planted} second holders noticed`,
  isGood
)

const { killed, repeated, loggedOut } = await killBetweenCommitAndAnswer(KILLS)
const isKept = killed === KILLS && repeated === KILLS && loggedOut === 0
reportFigure(
  'F18',
  `SQLite, ${killed} kills between commit and answer: ${repeated} repeats answered, ${loggedOut} log-outs`,
  isKept
)
